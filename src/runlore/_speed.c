/* Loops over bytes that take Python too long. Each stands in Python as well, which is used where this was not compiled, and which says what it
 * is for: `camel_parts` in store/words.py, `sort_words` in store/_postgres_words.py. Both give the same, and tests run over both.
 *
 * Keeps to the stable ABI of Python 3.11: what is compiled once is good for every later version. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define IS_UPPER(c) ((unsigned char)((c) - 'A') < 26)
#define IS_LOWER(c) (((unsigned char)((c) - 'a') < 26) | ((unsigned char)((c) - '0') < 10))
#define IS_DIGIT(c) ((unsigned char)((c) - '0') < 10)
#define IS_SMALL(c) ((unsigned char)((c) - 'a') < 26)

/* ── words, each once ─────────────────────────────────────────────────────────────────────────────────────────────── */

typedef struct {
    const unsigned char *text; /* Somewhere in the text that is looked through. None in a slot that is free. */
    uint64_t head;             /* Its first eight bytes, the first of them the highest: nearly always these tell the order. */
    uint32_t size, hash;
} Word;

typedef struct {
    Word *slots;
    size_t room, count; /* The room is a power of two, and twice as large as it need be. */
} Words;

static size_t slot_for(const Word *slots, size_t room, uint32_t hash) {
    size_t at = hash & (room - 1);
    while (slots[at].text)
        at = (at + 1) & (room - 1);
    return at;
}

static int make_room(Words *words) {
    size_t room = words->room ? words->room * 2 : 1024;
    Word *slots = calloc(room, sizeof(Word));
    if (!slots)
        return -1;
    for (size_t i = 0; i < words->room; i++)
        if (words->slots[i].text)
            slots[slot_for(slots, room, words->slots[i].hash)] = words->slots[i];
    free(words->slots);
    words->slots = slots;
    words->room = room;
    return 0;
}

/* The first eight bytes of a word, the first of them the highest; zeros where it has less. */
static uint64_t head_of(const unsigned char *text, size_t size, const unsigned char *end) {
    uint64_t head = 0;
    if (end - text < 8) {
        for (size_t i = 0; i < 8; i++)
            head = head << 8 | (i < size ? text[i] : 0);
        return head;
    }
    for (int i = 0; i < 8; i++) /* Compilers know this for one load. */
        head |= (uint64_t)text[i] << (56 - 8 * i);
    return size < 8 ? head & ~(UINT64_MAX >> 8 * size) : head;
}

/* `end` is that of the whole text, `size` is not 0. */
static int add(Words *words, const unsigned char *text, size_t size, const unsigned char *end) {
    uint64_t head = head_of(text, size, end), mixed = (head ^ size) * 0x9E3779B97F4A7C15u;
    for (size_t i = 8; i < size; i += 8)
        mixed = (mixed ^ mixed >> 29 ^ head_of(text + i, size - i, end)) * 0x9E3779B97F4A7C15u;
    uint32_t hash = (uint32_t)(mixed >> 32 ^ mixed >> 52); /* The lowest bits choose the slot, the highest are mixed best. */
    if (words->count * 2 >= words->room && make_room(words) < 0)
        return -1;
    size_t at = hash & (words->room - 1);
    for (const Word *word; (word = &words->slots[at])->text; at = (at + 1) & (words->room - 1))
        if (word->hash == hash && word->size == size && word->head == head && (size <= 8 || !memcmp(word->text + 8, text + 8, size - 8)))
            return 0;
    words->slots[at] = (Word){text, head, (uint32_t)size, hash};
    words->count++;
    return 0;
}

static int by_bytes(const void *a, const void *b) {
    const Word *one = a, *other = b;
    if (one->head != other->head)
        return one->head < other->head ? -1 : 1;
    int order = memcmp(one->text, other->text, one->size < other->size ? one->size : other->size);
    return order ? order : (one->size > other->size) - (one->size < other->size);
}

/* Puts them in order at the beginning of the slots, which are no longer to be searched. */
static void sort(Words *words) {
    size_t count = 0;
    for (size_t i = 0; i < words->room; i++)
        if (words->slots[i].text)
            words->slots[count++] = words->slots[i];
    if (count)
        qsort(words->slots, count, sizeof(Word), by_bytes);
}

/* ── the parts of words like parseHttpUrl ─────────────────────────────────────────────────────────────────────────── */

#define LONGEST 64 /* words.LONGEST */
#define BLOCK 4096

/* Where a word begins inside another, as in parseHttp and in HTTPServer. A loop without branches: compilers take many bytes at once. */
static void mark_block(const unsigned char *text, Py_ssize_t size, Py_ssize_t first, Py_ssize_t count, unsigned char *marks) {
    Py_ssize_t last = first + count < size - 2 ? first + count : size - 2;
    for (Py_ssize_t i = first ? first : 1; i < last; i++)
        marks[i - first] = IS_UPPER(text[i]) & (IS_LOWER(text[i - 1]) | (IS_UPPER(text[i + 1]) & IS_LOWER(text[i + 2])));
    if (!first)
        marks[0] = size > 2 && IS_UPPER(text[0]) && IS_UPPER(text[1]) && IS_LOWER(text[2]);
    for (Py_ssize_t i = last > first ? last : first ? first : 1; i < first + count; i++)
        marks[i - first] = IS_UPPER(text[i]) && IS_LOWER(text[i - 1]);
}

/* Capitals up to the one that begins a word, a word with its capital, or digits: words._PARTS. */
static int add_parts(Words *parts, const unsigned char *at, const unsigned char *end, const unsigned char *end_of_all) {
    while (at < end) {
        const unsigned char *from = at;
        if (IS_DIGIT(*at)) {
            while (at < end && IS_DIGIT(*at))
                at++;
        } else {
            while (at < end && IS_UPPER(*at))
                at++;
            if (at < end && IS_SMALL(*at)) {
                if (at - from > 1)
                    at--;
                else
                    while (at < end && IS_SMALL(*at))
                        at++;
            }
        }
        if (at - from > 1 && add(parts, from, (size_t)(at - from), end_of_all) < 0)
            return -1;
    }
    return 0;
}

static int find_parts(Words *parts, const unsigned char *text, Py_ssize_t size) {
    unsigned char marks[BLOCK];
    Py_ssize_t done = 0;
    for (Py_ssize_t first = 0; first < size; first += BLOCK) {
        Py_ssize_t count = size - first < BLOCK ? size - first : BLOCK;
        mark_block(text, size, first, count, marks);
        for (Py_ssize_t i = done > first ? done - first : 0; i < count; i = done - first) {
            const unsigned char *mark = memchr(marks + i, 1, (size_t)(count - i));
            if (!mark)
                break;
            Py_ssize_t from = first + (mark - marks), to = from;
            while (from > done && (IS_UPPER(text[from - 1]) | IS_LOWER(text[from - 1])))
                from--;
            while (to < size && (IS_UPPER(text[to]) | IS_LOWER(text[to])))
                to++;
            if (to - from <= LONGEST && add_parts(parts, text + from, text + to, text + size) < 0)
                return -1;
            done = to;
        }
    }
    return 0;
}

static PyObject *camel_parts(PyObject *self, PyObject *text) {
    (void)self;
    char *data;
    Py_ssize_t size;
    if (PyBytes_AsStringAndSize(text, &data, &size) < 0)
        return NULL;
    Words parts = {0};
    if (find_parts(&parts, (const unsigned char *)data, size) < 0) {
        free(parts.slots);
        return PyErr_NoMemory();
    }
    sort(&parts);
    PyObject *list = PyList_New((Py_ssize_t)parts.count);
    for (size_t i = 0; list && i < parts.count; i++) {
        PyObject *part = PyBytes_FromStringAndSize((const char *)parts.slots[i].text, parts.slots[i].size);
        if (!part || PyList_SetItem(list, (Py_ssize_t)i, part) < 0)
            Py_CLEAR(list);
    }
    free(parts.slots);
    return list;
}

/* ── the words of a segment, for PostgreSQL ───────────────────────────────────────────────────────────────────────── */

/* Of words with blanks between them: all of them with one blank before, between and behind; how many different ones there are; and these in
 * order, with three zeros behind each. */
static PyObject *sort_words(PyObject *self, PyObject *text) {
    (void)self;
    char *data;
    Py_ssize_t size;
    if (PyBytes_AsStringAndSize(text, &data, &size) < 0)
        return NULL;
    Words words = {0};
    PyObject *found = NULL;
    size_t room = 0;
    char *sorted = NULL, *line = malloc((size_t)size + 2);
    if (!line)
        goto no_memory;
    char *to = line;
    *to++ = ' ';
    for (const char *at = data, *end = data + size; at < end;) {
        if (*at == ' ') {
            at++;
            continue;
        }
        const char *from = at;
        if (!(at = memchr(from, ' ', (size_t)(end - from))))
            at = end;
        memcpy(to, from, (size_t)(at - from));
        to += at - from;
        *to++ = ' ';
        if (add(&words, (const unsigned char *)from, (size_t)(at - from), (const unsigned char *)end) < 0)
            goto no_memory;
    }
    if (!words.count)
        *to++ = ' ';
    sort(&words);
    for (size_t i = 0; i < words.count; i++)
        room += words.slots[i].size + 3;
    if (!(sorted = calloc(room + 1, 1)))
        goto no_memory;
    for (size_t i = 0, at = 0; i < words.count; at += words.slots[i++].size + 3)
        memcpy(sorted + at, words.slots[i].text, words.slots[i].size);
    found = Py_BuildValue("y#ny#", line, (Py_ssize_t)(to - line), (Py_ssize_t)words.count, sorted, (Py_ssize_t)room);
    goto done;
no_memory:
    PyErr_NoMemory();
done:
    free(words.slots);
    free(line);
    free(sorted);
    return found;
}

static PyMethodDef methods[] = {
    {"camel_parts", camel_parts, METH_O, NULL},
    {"sort_words", sort_words, METH_O, NULL},
    {NULL, NULL, 0, NULL},
};

static PyModuleDef_Slot slots[] = {{0, NULL}};

static PyModuleDef definition = {PyModuleDef_HEAD_INIT, "runlore._speed", NULL, 0, methods, slots, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__speed(void) { return PyModuleDef_Init(&definition); }
