/* Loops that take Python too long. Most stand in Python as well, which is used where this was not compiled, and which says what they are for:
 * `camel_parts` in store/words.py, `list_words` in store/_postgres_words.py, `make_pages`, `bind_pages` and `find_in_pages` in store/_pages.py,
 * `pack_rows` in store/_postgres_bulk.py. Both give the same, and tests run over both. `sieve` only saves the gate of the redaction work
 * (_sieve.py): without it the gate looks at everything. `keep_freed` is no loop, and is to be had in no other way.
 *
 * Keeps to the stable ABI of Python 3.11: what is compiled once is good for every later version. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif

#define IS_UPPER(c) ((unsigned char)((c) - 'A') < 26)
#define IS_LOWER(c) (((unsigned char)((c) - 'a') < 26) | ((unsigned char)((c) - '0') < 10))
#define IS_DIGIT(c) ((unsigned char)((c) - '0') < 10)
#define IS_SMALL(c) ((unsigned char)((c) - 'a') < 26)

/* ── words, each once ─────────────────────────────────────────────────────────────────────────────────────────────── */

typedef struct {
    const unsigned char *text; /* Somewhere in the text that is looked through. None in a slot that is free. */
    uint64_t head;             /* Its first eight bytes, the first of them the highest: nearly always these tell the order. */
    uint32_t size, hash;
    uint32_t number, last; /* The how manieth it is, and the last place where it was found: for whoever looks for places. */
} Word;

#define NO_PLACE UINT32_MAX

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

/* The word in its slot, until the next one is added; NULL when there is no memory. `end` is that of the whole text, `size` is not 0. */
static Word *add(Words *words, const unsigned char *text, size_t size, const unsigned char *end) {
    uint64_t head = head_of(text, size, end), mixed = (head ^ size) * 0x9E3779B97F4A7C15u;
    for (size_t i = 8; i < size; i += 8)
        mixed = (mixed ^ mixed >> 29 ^ head_of(text + i, size - i, end)) * 0x9E3779B97F4A7C15u;
    uint32_t hash = (uint32_t)(mixed >> 32 ^ mixed >> 52); /* The lowest bits choose the slot, the highest are mixed best. */
    if (words->count * 2 >= words->room && make_room(words) < 0)
        return NULL;
    size_t at = hash & (words->room - 1);
    for (Word *word; (word = &words->slots[at])->text; at = (at + 1) & (words->room - 1))
        if (word->hash == hash && word->size == size && word->head == head && (size <= 8 || !memcmp(word->text + 8, text + 8, size - 8)))
            return word;
    words->slots[at] = (Word){text, head, (uint32_t)size, hash, (uint32_t)words->count++, NO_PLACE};
    return &words->slots[at];
}

static int is_before(const Word *one, const Word *other) {
    if (one->head != other->head)
        return one->head < other->head;
    int order = memcmp(one->text, other->text, one->size < other->size ? one->size : other->size);
    return order ? order < 0 : one->size < other->size;
}

#define RUN 8

/* Puts them in order at the beginning of the slots, which are no longer to be searched. Merges runs, in place of `qsort`, which
 * calls a function for each comparison and moves bytes of any number. */
static int sort(Words *words) {
    size_t count = 0;
    for (size_t i = 0; i < words->room; i++)
        if (words->slots[i].text)
            words->slots[count++] = words->slots[i];
    Word *from = words->slots, *to = malloc((count + 1) * sizeof(Word));
    if (!to)
        return -1;
    for (size_t i = 1; i < count; i++) {
        Word word = from[i];
        size_t at = i;
        for (; at % RUN && is_before(&word, &from[at - 1]); at--)
            from[at] = from[at - 1];
        from[at] = word;
    }
    for (size_t width = RUN; width < count; width *= 2) {
        for (size_t first = 0; first < count; first += 2 * width) {
            size_t middle = first + width < count ? first + width : count, last = middle + width < count ? middle + width : count;
            const Word *one = from + first, *other = from + middle, *end_of_one = other, *end = from + last;
            Word *out = to + first;
            while (one < end_of_one && other < end) {
                int is_other = is_before(other, one); /* Which it is cannot be foreseen, so it is no branch. */
                *out++ = *(is_other ? other : one);
                other += is_other;
                one += !is_other;
            }
            memcpy(out, one, (size_t)(end_of_one - one) * sizeof(Word));
            memcpy(out + (end_of_one - one), other, (size_t)(end - other) * sizeof(Word));
        }
        Word *made = to;
        to = from;
        from = made;
    }
    words->slots = from;
    free(to);
    return 0;
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
        if (at - from > 1 && !add(parts, from, (size_t)(at - from), end_of_all))
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
    if (find_parts(&parts, (const unsigned char *)data, size) < 0 || sort(&parts) < 0) {
        free(parts.slots);
        return PyErr_NoMemory();
    }
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

typedef struct {
    unsigned char *text; /* Where the words are that were found: when it moves, they do. */
    size_t size, room;
} Line;

/* Has room for so many bytes more, and for eight behind them, which may be looked at. */
static int reserve(Line *line, size_t more, Words *words) {
    if (line->text && line->room - line->size >= more + 8)
        return 0;
    size_t room = (line->size + more + 8) * 2;
    unsigned char *text = calloc(room, 1);
    if (!text)
        return -1;
    memcpy(text, line->text ? line->text : text, line->size);
    for (size_t i = 0; words && i < words->room; i++)
        if (words->slots[i].text)
            words->slots[i].text = text + (words->slots[i].text - line->text);
    free(line->text);
    line->text = text;
    line->room = room;
    return 0;
}

typedef struct {
    Line all, once; /* Every word, and each where it comes first. */
    Words words;
    size_t longest;
} Listed;

/* Takes in the word that stands at the end of the line, and sets a blank behind it. */
static int take(Listed *made, size_t size) {
    Line *line = &made->all, *once = &made->once;
    size_t count = made->words.count;
    made->longest = size > made->longest ? size : made->longest;
    if (!add(&made->words, line->text + line->size, size, line->text + line->room))
        return -1;
    if (made->words.count > count) {
        if (reserve(once, size + 1, NULL) < 0)
            return -1;
        memcpy(once->text + once->size, line->text + line->size, size);
        once->size += size;
        once->text[once->size++] = ' ';
    }
    line->size += size;
    line->text[line->size++] = ' ';
    return 0;
}

/* The words of what stands at the end of the line, which has letters beyond ASCII: as Python cuts them, with blanks between. */
static int take_foreign(Listed *listed, size_t size, size_t rest, PyObject *cut) {
    Line *line = &listed->all;
    char *made;
    Py_ssize_t length;
    PyObject *found = PyObject_CallFunction(cut, "y#", (const char *)line->text + line->size, (Py_ssize_t)size);
    if (!found)
        return -1;
    if (PyBytes_AsStringAndSize(found, &made, &length) < 0) {
        Py_DECREF(found);
        return -1;
    }
    int failed = reserve(line, (size_t)length + 1 + rest, &listed->words);
    for (const char *at = made, *end = made + length; !failed && at < end; at++) {
        const char *blank = memchr(at, ' ', (size_t)(end - at));
        size_t one = (size_t)((blank ? blank : end) - at);
        if (one) {
            memcpy(line->text + line->size, at, one);
            failed = take(listed, one);
        }
        at += one;
    }
    Py_DECREF(found);
    if (failed)
        PyErr_NoMemory();
    return failed;
}

/* The arrow, dash and line of _postgres_words._SIGNS. */
static int is_sign(const unsigned char *at, const unsigned char *end) {
    return end - at >= 3 && at[0] == 0xe2 &&
           ((at[1] == 0x86 && at[2] == 0x92) || (at[1] == 0x80 && at[2] == 0x94) || (at[1] == 0x94 && at[2] == 0x82));
}

/* The words of a text, each letter small, with one blank before, between and behind them; each of them once, with blanks between; and the
 * length of the longest. `cut` takes those apart that are not all ASCII. */
static PyObject *list_words(PyObject *self, PyObject *args) {
    (void)self;
    static unsigned char fold[256]; /* 0 where there is no word; what is beyond ASCII stays. */
    if (!fold['a'])
        for (int c = 0; c < 256; c++)
            fold[c] = IS_UPPER(c) ? c | 0x20 : IS_LOWER(c) || c >= 0x80 ? c : 0;
    PyObject *text, *cut, *found = NULL;
    char *data;
    Py_ssize_t size;
    if (!PyArg_ParseTuple(args, "SO", &text, &cut) || PyBytes_AsStringAndSize(text, &data, &size) < 0)
        return NULL;
    Listed made = {0};
    Line *line = &made.all;
    if (reserve(line, (size_t)size + 2, &made.words) < 0)
        goto no_memory;
    line->text[line->size++] = ' ';
    for (const unsigned char *at = (const unsigned char *)data, *end = at + size; at < end;) {
        unsigned char c = fold[*at], all = 0;
        if (!c || (c >= 0x80 && is_sign(at, end))) {
            at += c ? 3 : 1;
            continue;
        }
        unsigned char *to = line->text + line->size;
        do {
            *to++ = c;
            all |= c;
        } while (++at < end && (c = fold[*at]) && !(c >= 0x80 && is_sign(at, end)));
        size_t length = (size_t)(to - line->text) - line->size;
        if (all >= 0x80) {
            if (take_foreign(&made, length, (size_t)(end - at) + 2, cut) < 0)
                goto done;
        } else if (take(&made, length) < 0)
            goto no_memory;
    }
    if (!made.words.count)
        line->text[line->size++] = ' ';
    found = Py_BuildValue("y#y#n", line->text, (Py_ssize_t)line->size, made.once.text ? (char *)made.once.text : "",
                          (Py_ssize_t)(made.once.size ? made.once.size - 1 : 0), (Py_ssize_t)made.longest);
    goto done;
no_memory:
    PyErr_NoMemory();
done:
    free(made.words.slots);
    free(line->text);
    free(made.once.text);
    return found;
}

/* ── pages of the index over words, for PostgreSQL ────────────────────────────────────────────────────────────────── */

#define PAGE_BYTES 3900 /* _pages.PAGE_BYTES, PIECE_BYTES and WORD_BYTES */
#define PIECE_BYTES 3000
#define WORD_BYTES 2048
#define MOST_SEGMENTS (1 << 28)
#define CHUNK_BYTES (1 << 20)

typedef struct {
    uint32_t word, value; /* The number of a word, and a segment that has it: its number << 3, and a bit for each column. */
} Place;

typedef struct Chunk {
    struct Chunk *next;
    size_t size;
    unsigned char text[CHUNK_BYTES + 8];
} Chunk;

typedef struct {
    Words words;
    Place *places;
    size_t count, room;
    Chunk *chunks; /* Words that stand nowhere else as a whole. */
} Book;

static void drop_book(Book *book) {
    free(book->words.slots);
    free(book->places);
    while (book->chunks) {
        Chunk *next = book->chunks->next;
        free(book->chunks);
        book->chunks = next;
    }
}

static int fail(const char *why) {
    PyErr_SetString(PyExc_ValueError, why);
    return -1;
}

static int no_memory(void) {
    PyErr_NoMemory();
    return -1;
}

/* Notes that a segment has a word in some columns. Segments come in ascending order. */
static int note_place(Book *book, Word *word, uint32_t value) {
    if (word->last != NO_PLACE) {
        Place *last = &book->places[word->last];
        if (last->value >> 3 > value >> 3)
            return fail("segments are out of order");
        if (last->value >> 3 == value >> 3) {
            last->value |= value & 7;
            return 0;
        }
    }
    if (book->count == book->room) {
        size_t room = book->room ? book->room * 2 : 4096;
        Place *places = room < NO_PLACE ? realloc(book->places, room * sizeof(Place)) : NULL;
        if (!places)
            return no_memory();
        book->places = places;
        book->room = room;
    }
    word->last = (uint32_t)book->count;
    book->places[book->count++] = (Place){word->number, value};
    return 0;
}

static unsigned char *write_number(unsigned char *to, uint32_t number) {
    for (; number >= 0x80; number >>= 7)
        *to++ = (unsigned char)(number | 0x80);
    *to++ = (unsigned char)number;
    return to;
}

/* The number that stands here, of 32 bits at most; NULL when there is none. */
static const unsigned char *read_number(const unsigned char *at, const unsigned char *end, uint32_t *number) {
    uint64_t made = 0;
    for (int shift = 0; at < end && shift < 35; shift += 7) {
        made |= (uint64_t)(*at & 0x7f) << shift;
        if (!(*at++ & 0x80)) {
            *number = (uint32_t)made;
            return made <= UINT32_MAX ? at : NULL;
        }
    }
    return NULL;
}

/* Places, the next of which is `*done`, as many as there is room for. */
static size_t put_places(const uint32_t *values, size_t count, size_t *done, unsigned char *piece) {
    unsigned char *to = piece, one[5];
    uint32_t before = 0;
    for (; *done < count; ++*done) {
        uint32_t value = values[*done], number = value >> 3;
        size_t size = (size_t)(write_number(one, (number - before) << 3 | (value & 7)) - one);
        if ((size_t)(to - piece) + size > PIECE_BYTES)
            break;
        memcpy(to, one, size);
        to += size;
        before = number;
    }
    return (size_t)(to - piece);
}

typedef struct {
    PyObject *list;
    const Word *first, *before; /* Of the page that is being written. */
    size_t size;
    unsigned char body[PAGE_BYTES], entry[WORD_BYTES + PIECE_BYTES + 16];
} Pages;

static int add_page(Pages *pages, const Word *first, size_t part, const unsigned char *body, size_t size) {
    PyObject *page = Py_BuildValue("(y#ny#)", first->text, (Py_ssize_t)first->size, (Py_ssize_t)part, body, (Py_ssize_t)size);
    int failed = !page || PyList_Append(pages->list, page) < 0;
    Py_XDECREF(page);
    return failed ? -1 : 0;
}

static int close_page(Pages *pages) {
    size_t size = pages->size;
    pages->size = 0;
    return size ? add_page(pages, pages->first, 0, pages->body, size) : 0;
}

static size_t put_entry(unsigned char *entry, const Word *word, size_t shared, const unsigned char *piece, size_t size) {
    unsigned char *to = write_number(write_number(entry, (uint32_t)shared), (uint32_t)(word->size - shared));
    memcpy(to, word->text + shared, word->size - shared);
    to = write_number(to + word->size - shared, (uint32_t)size);
    memcpy(to, piece, size);
    return (size_t)(to + size - entry);
}

static int write_word(Pages *pages, const Word *word, const uint32_t *values, size_t count) {
    unsigned char piece[PIECE_BYTES];
    size_t done = 0, shared = 0, size = put_places(values, count, &done, piece);
    if (done < count) { /* Pages of its own. */
        if (close_page(pages) < 0)
            return -1;
        for (size_t part = 0; size; part++, size = put_places(values, count, &done, piece))
            if (add_page(pages, word, part, pages->entry, put_entry(pages->entry, word, 0, piece, size)) < 0)
                return -1;
        return 0;
    }
    if (pages->size)
        while (shared < word->size && shared < pages->before->size && word->text[shared] == pages->before->text[shared])
            shared++;
    size_t length = put_entry(pages->entry, word, shared, piece, size);
    if (pages->size && pages->size + length > PAGE_BYTES) {
        if (close_page(pages) < 0)
            return -1;
        length = put_entry(pages->entry, word, 0, piece, size);
    }
    pages->before = word;
    if (!pages->size)
        pages->first = word;
    if (length > PAGE_BYTES) /* Of a very long word. */
        return add_page(pages, word, 0, pages->entry, length);
    memcpy(pages->body + pages->size, pages->entry, length);
    pages->size += length;
    return 0;
}

/* All words in order, on pages. */
static PyObject *write_book(Book *book) {
    size_t words = book->words.count;
    uint32_t *ends = calloc(words + 1, sizeof(uint32_t)), *values = malloc((book->count + 1) * sizeof(uint32_t));
    Pages *pages = calloc(1, sizeof(Pages));
    if (!ends || !values || !pages || sort(&book->words) < 0) {
        no_memory();
        goto done;
    }
    for (size_t i = 0; i < book->count; i++)
        ends[book->places[i].word + 1]++;
    for (size_t i = 0; i < words; i++)
        ends[i + 1] += ends[i];
    for (size_t i = 0; i < book->count; i++) /* From here on, where the places of a word end. */
        values[ends[book->places[i].word]++] = book->places[i].value;
    pages->list = PyList_New(0);
    for (size_t i = 0; pages->list && i < words; i++) {
        const Word *word = &book->words.slots[i];
        uint32_t first = word->number ? ends[word->number - 1] : 0;
        if (write_word(pages, word, values + first, ends[word->number] - first) < 0)
            Py_CLEAR(pages->list);
    }
    if (pages->list && close_page(pages) < 0)
        Py_CLEAR(pages->list);
done:
    free(ends);
    free(values);
    PyObject *list = pages ? pages->list : NULL;
    free(pages);
    return list;
}

static int read_column(Book *book, PyObject *words, uint32_t value) {
    char *data;
    Py_ssize_t size;
    if (words == Py_None)
        return 0;
    if (PyBytes_AsStringAndSize(words, &data, &size) < 0)
        return -1;
    for (const unsigned char *at = (const unsigned char *)data, *end = at + size; at < end; at++) {
        const unsigned char *blank = memchr(at, ' ', (size_t)(end - at));
        size_t length = (size_t)((blank ? blank : end) - at);
        if (length > WORD_BYTES)
            return fail("a word is too long");
        if (length) {
            Word *word = add(&book->words, at, length, end);
            if (!word)
                return no_memory();
            if (note_place(book, word, value) < 0)
                return -1;
        }
        at += length;
    }
    return 0;
}

/* The pages of segments, each with the words of three columns. */
static PyObject *make_pages(PyObject *self, PyObject *segments) {
    (void)self;
    Book book = {0};
    PyObject *found = NULL;
    Py_ssize_t count = PyList_Size(segments);
    if (count < 0 || (count > MOST_SEGMENTS && fail("too many segments")))
        return NULL;
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *segment = PyList_GetItem(segments, i);
        for (int column = 0; column < 3; column++) {
            PyObject *words = segment ? PyTuple_GetItem(segment, column) : NULL;
            if (!words || read_column(&book, words, (uint32_t)i << 3 | 1u << column) < 0)
                goto done;
        }
    }
    found = write_book(&book);
done:
    drop_book(&book);
    return found;
}

typedef struct {
    const unsigned char *at, *end; /* What is still to be read of a page. */
    const unsigned char *places, *behind;
    uint32_t size;
    unsigned char word[WORD_BYTES + 8];
} Reading;

/* Reads the next word, and where its places are. */
static int read_entry(Reading *page) {
    uint32_t shared, more, size;
    const unsigned char *at = read_number(page->at, page->end, &shared);
    at = at ? read_number(at, page->end, &more) : NULL;
    if (!at || shared > page->size || more > WORD_BYTES - shared || more > (size_t)(page->end - at))
        return fail("a page is damaged");
    memcpy(page->word + shared, at, more);
    page->size = shared + more;
    at = read_number(at + more, page->end, &size);
    if (!at || size > (size_t)(page->end - at) || !page->size)
        return fail("a page is damaged");
    page->places = at;
    page->at = page->behind = at + size;
    return 0;
}

/* Reads the next place of a word; `*number` is that of the segment before it, 0 at first. Gives its columns, or -1. */
static int read_place(Reading *page, uint32_t *number) {
    uint32_t value;
    page->places = read_number(page->places, page->behind, &value);
    if (!page->places || (value >> 3) >= MOST_SEGMENTS - *number)
        return fail("a page is damaged");
    *number += value >> 3;
    return (int)(value & 7);
}

static int begin_page(Reading *page, PyObject *body) {
    char *data;
    Py_ssize_t size;
    if (PyBytes_AsStringAndSize(body, &data, &size) < 0)
        return -1;
    page->at = (const unsigned char *)data;
    page->end = page->at + size;
    page->size = 0;
    return 0;
}

/* Gives a word that was read a place to stay. */
static int settle(Book *book, Word *word, const unsigned char *text) {
    if (!book->chunks || CHUNK_BYTES - book->chunks->size < word->size) {
        Chunk *chunk = malloc(sizeof(Chunk));
        if (!chunk)
            return no_memory();
        chunk->next = book->chunks;
        chunk->size = 0;
        book->chunks = chunk;
    }
    word->text = memcpy(book->chunks->text + book->chunks->size, text, word->size);
    book->chunks->size += word->size;
    return 0;
}

/* Takes in the pages of a volume; segment n of it is segment `where[n]` of the new one, or gone. */
static int read_volume(Book *book, Reading *page, PyObject *bodies, const char *where, size_t count) {
    Py_ssize_t pages = PyList_Size(bodies);
    for (Py_ssize_t i = 0; i < pages; i++) {
        if (begin_page(page, PyList_GetItem(bodies, i)) < 0)
            return -1;
        while (page->at < page->end) {
            if (read_entry(page) < 0)
                return -1;
            Word *word = NULL;
            for (uint32_t number = 0; page->places < page->behind;) {
                int columns = read_place(page, &number);
                int32_t to;
                if (columns < 0 || (number >= count && fail("a page is damaged")))
                    return -1;
                memcpy(&to, where + 4 * (size_t)number, 4);
                if (to < 0)
                    continue;
                if (!word && !(word = add(&book->words, page->word, page->size, page->word + sizeof(page->word))))
                    return no_memory();
                if (word->text == page->word && settle(book, word, page->word) < 0)
                    return -1;
                if ((to >= MOST_SEGMENTS && fail("too many segments")) || note_place(book, word, (uint32_t)to << 3 | (uint32_t)columns) < 0)
                    return -1;
            }
        }
    }
    return pages < 0 ? -1 : 0;
}

/* The pages of several volumes, made into one: of each its pages, and which segment each of its segments is there. */
static PyObject *bind_pages(PyObject *self, PyObject *volumes) {
    (void)self;
    Book book = {0};
    PyObject *found = NULL;
    Py_ssize_t count = PyList_Size(volumes);
    Reading *page = calloc(1, sizeof(Reading));
    if (!page)
        PyErr_NoMemory();
    for (Py_ssize_t i = 0; page && i < count; i++) {
        PyObject *bodies, *where;
        char *data;
        Py_ssize_t size;
        if (!PyArg_ParseTuple(PyList_GetItem(volumes, i), "OS", &bodies, &where) || PyBytes_AsStringAndSize(where, &data, &size) < 0 ||
            read_volume(&book, page, bodies, data, (size_t)size / 4) < 0)
            goto done;
    }
    if (page && count >= 0)
        found = write_book(&book);
done:
    free(page);
    drop_book(&book);
    return found;
}

static int compare(const unsigned char *one, size_t size, const char *other, Py_ssize_t length) {
    int order = memcmp(one, other, size < (size_t)length ? size : (size_t)length);
    return order ? order : size < (size_t)length ? -1 : size > (size_t)length;
}

/* The segments that have a word from `low` on and before `high` in one of the columns, each once: `ids` has the id of each. */
static PyObject *find_in_pages(PyObject *self, PyObject *args) {
    (void)self;
    PyObject *pages, *made = NULL;
    const char *low, *high, *ids;
    Py_ssize_t low_size, high_size, size;
    int columns;
    if (!PyArg_ParseTuple(args, "Oy#y#iy#", &pages, &low, &low_size, &high, &high_size, &columns, &ids, &size))
        return NULL;
    Reading *page = calloc(1, sizeof(Reading));
    unsigned char *seen = calloc((size_t)size / 64 + 1, 1); /* A bit for each segment. */
    char *found = NULL;
    size_t count = 0, room = 0;
    if (!page || !seen) {
        PyErr_NoMemory();
        goto done;
    }
    Py_ssize_t all = PyList_Size(pages);
    for (Py_ssize_t i = 0; i < all; i++) {
        if (begin_page(page, PyList_GetItem(pages, i)) < 0)
            goto done;
        while (page->at < page->end) {
            if (read_entry(page) < 0)
                goto done;
            if (compare(page->word, page->size, high, high_size) >= 0)
                break;
            if (compare(page->word, page->size, low, low_size) < 0)
                continue;
            for (uint32_t number = 0; page->places < page->behind;) {
                int has = read_place(page, &number);
                if (has < 0 || ((Py_ssize_t)number >= size / 8 && fail("a page is damaged")))
                    goto done;
                if (!(has & columns) || seen[number >> 3] >> (number & 7) & 1)
                    continue;
                seen[number >> 3] |= (unsigned char)(1 << (number & 7));
                if (count == room) {
                    room = room ? room * 2 : 512;
                    char *more = realloc(found, room * 8);
                    if (!more) {
                        PyErr_NoMemory();
                        goto done;
                    }
                    found = more;
                }
                memcpy(found + 8 * count++, ids + 8 * (size_t)number, 8);
            }
        }
    }
    if (all >= 0)
        made = PyBytes_FromStringAndSize(found, (Py_ssize_t)(8 * count));
done:
    free(page);
    free(seen);
    free(found);
    return made;
}

/* ── where the gate of the redaction could open ───────────────────────────────────────────────────────────────────── */

#define WINDOW 4
#define BUCKETS 64
#define IS_ALNUM(c) (IS_UPPER(c) | IS_LOWER(c))
#define IN_SET(set, c) ((set)[(c) >> 3] >> ((c)&7) & 1)

enum { PLAIN, LED, NAME, TOKEN, AUTH };

typedef struct {
    uint8_t first[WINDOW], known[WINDOW]; /* Its first bytes, and which bits of them are known: most paths are told apart by these. */
    uint16_t step;
    uint8_t count, kind;
} Path;

typedef struct {
    uint16_t set;
    uint8_t least, loops;
} Step;

typedef struct {
    const uint64_t (*masks)[256];
    uint64_t anywhere; /* Buckets with paths that may begin in the middle of a word. */
    const uint16_t *firsts, *listed;
    const Path *paths;
    const Step *steps;
    const uint8_t (*sets)[32];
    size_t walked, enough; /* Bytes that were looked at from places where the gate could open, and how many make it the gate's turn. */
} Sieve;

/* Where a match would begin of which the token begins here: with one byte, or with an escape that ends in a letter or digit. */
static size_t start_of(const unsigned char *text, size_t at) {
    if (at == 0 || !IS_ALNUM(text[at - 1]))
        return at ? at - 1 : 0;
    return at > 1 && text[at - 2] == '\\' ? at - 2 : at > 2 && text[at - 3] == '%' ? at - 3 : at > 5 ? at - 6 : 0;
}

/* Whether no word is under way here, or what looks like one may be the end of an escape: _rules._START. */
static int is_start(const unsigned char *text, size_t at) {
    return at == 0 || !IS_ALNUM(text[at - 1]) || (at > 1 && text[at - 2] == '\\') || (at > 2 && text[at - 3] == '%') ||
           (at > 5 && text[at - 6] == '\\');
}

/* What stands between a name and its value, and where a value ends, as _anchored has it for the gate. Each may say yes too often, never no. */

static int is_between(const unsigned char *text, size_t at) {
    unsigned char c = text[at], before = text[at - 1];
    switch (c) {
    case '/':
        return before == '<' || before == '\\';
    case ';':
        return before == '[' || before == ';' || IS_DIGIT(before);
    case '+':
        return before == '\n' || before == 'n';
    case 0xe2: case 0x80: case 0x86: case 0x1b: /* Parts of curly quotes and of an arrow; an escape. */
        return 1;
    }
    return IS_ALNUM(c) || (c >= 0x92 && c <= 0x9f) || (c && strchr(" \t\r\n\"'`\\[]{}()<>:=,|?*-", c));
}

/* Digits are there as the number of a line, in an escape, or in the code of a colour. `at` is the last of them. */
static int is_numbering(const unsigned char *text, size_t at, size_t end) {
    size_t next = at + 1;
    if (next < end && text[next] == '\\') {
        while (next < end && text[next] == '\\')
            next++;
        return next < end && (text[next] == 't' || text[next] == 'u');
    }
    return next < end && (text[next] == 0xe2 || (text[next] && strchr("\t:|m;", text[next])));
}

/* One of the words of _anchored._FILLING, perhaps with the letters of an escape before it, or no more than such letters. */
static int is_filling(const unsigned char *word, size_t size) {
    static const char *const words[] = {"is", "was", "are", "key", "value", "for", "to", "of", "set", "string", "str",
                                        "type", "with", "user", "the", "this", "your", "my", "basic", "bearer", "token"};
    if (size <= 3)
        return 1;
    for (size_t n = 0; n < sizeof(words) / sizeof(*words); n++) {
        size_t length = strlen(words[n]), same = 0;
        while (same < length && length <= size && (word[size - length + same] | 32) == words[n][same])
            same++;
        if (same == length)
            return 1;
    }
    return 0;
}

/* Whether this quote may open a value: _anchored._OPENING. */
static int is_opening(const unsigned char *text, size_t at) {
    while (at && text[at - 1] == '\\')
        at--;
    for (int n = 0; n < 2 && at && strchr("bruf", text[at - 1]) && text[at - 1]; n++)
        at--;
    while (at && text[at - 1] == '\\')
        at--;
    return at && text[at - 1] && strchr(":=,( \t>|", text[at - 1]);
}

/* Whether eight bytes of a value, one of them a digit, or a mark in quotes, can be reached from the end of a name: _anchored.GATE. */
static int leads_to_value(Sieve *sieve, const unsigned char *text, size_t at, size_t end, int kind) {
    if (kind == TOKEN && at < end && (text[at] | 32) == 's') { /* Neither `tokens`, unless it is `tokenset` or `tokenstr`, */
        unsigned char a = at + 2 < end ? text[at + 1] | 32 : 0, b = at + 2 < end ? text[at + 2] | 32 : 0;
        if (!((a == 'e' && b == 't') || (a == 't' && b == 'r')))
            return 0;
    }
    if (kind == AUTH && at + 1 < end && (text[at] | 32) == 'o' && (text[at + 1] | 32) != 'f') /* nor `author`, unless it is `authof`. */
        return 0;
    size_t run = 0;
    int has_one = 0, is_dashed = 0;
    for (; at < end && (IS_ALNUM(text[at]) || text[at] == '_' || text[at] == '-'); at++) {
        is_dashed |= text[at] == '-'; /* The value may begin behind it. */
        run += is_dashed;
        has_one |= is_dashed && IS_DIGIT(text[at]);
        if ((run >= 8 && has_one) || ++sieve->walked > sieve->enough)
            return 1;
    }
    if (at >= end)
        return 0;
    if (text[at] == '>')
        for (size_t i = at + 1; i < end && !(text[i] && strchr("<>\r\n\"", text[i])); i++)
            if (IS_DIGIT(text[i]) || ++sieve->walked > sieve->enough)
                return 1;
    if (!is_between(text, at) && !is_dashed)
        return 0;
    /* Up to four words in small letters may come first, or any number of filling words. `is_last`: no other value than this can be reached. */
    size_t letters = 0, words = 0, escaped_at = 0, escaped_until = 0;
    int is_quoted = 0, is_plain = 1, is_other = 0, is_last = 0;
    for (; at < end; at++) {
        unsigned char c = text[at];
        if (IS_UPPER(c) || IS_SMALL(c)) {
            letters++;
        } else if (letters) {
            is_other |= !is_filling(text + at - letters, letters);
            is_plain &= ++words <= 4;
            letters = 0;
        }
        is_plain &= IS_SMALL(c) || (c && strchr(" :\\\"'`", c));
        is_last |= (is_other && !is_plain) || !is_between(text, at);
        if (IS_DIGIT(c) && at >= escaped_until && !(at + 1 < end && IS_DIGIT(text[at + 1])))
            is_last |= !is_numbering(text, at, end);
        int ends = 0;
        if (c == '\\') {
            size_t next = at;
            while (next < end && text[next] == '\\')
                next++;
            unsigned char escaped = next < end ? text[next] : 0;
            ends = escaped <= ' ' || strchr("\"'`nrtbf", escaped);
            if (!ends) { /* A comma or a bracket that is escaped ends no value. */
                run += next - at;
                escaped_at = next;
            }
            if (escaped == 'u') { /* It may be a curly quote. */
                is_quoted = 1;
                escaped_until = next + 5;
            }
            sieve->walked += next - at;
            at = next - 1;
        } else if (c == '"' || c == '\'' || c == '`') {
            ends = 1;
        } else if (c <= ' ' || (!is_quoted && at != escaped_at && strchr(",;(){}[]<>=", c))) {
            ends = 1;
        } else {
            is_quoted |= c >= 0x80;
            has_one |= IS_DIGIT(c) || (is_quoted && strchr("!@#$%^&*~+", c));
            run++;
        }
        if (ends) {
            if (is_last)
                return 0;
            run = 0;
            has_one = 0;
            is_quoted = (c == '"' || c == '\'' || c == '`') && is_opening(text, at);
        }
        if ((run >= 8 && has_one) || ++sieve->walked > sieve->enough)
            return 1;
    }
    return 0;
}

static int follows(Sieve *sieve, const Path *path, const unsigned char *text, size_t at, size_t end) {
    uint32_t here, first, known;
    memcpy(&here, text + at, WINDOW);
    memcpy(&first, path->first, WINDOW);
    memcpy(&known, path->known, WINDOW);
    if ((here & known) != first)
        return 0;
    for (const Step *step = sieve->steps + path->step, *last = step + path->count; step < last; step++) {
        const uint8_t *set = sieve->sets[step->set];
        size_t need = at + step->least;
        if (need > end)
            return 0;
        for (; at < need; at++)
            if (!IN_SET(set, text[at]))
                return 0;
        if (step->loops)
            for (; at < end && IN_SET(set, text[at]); at++)
                if (++sieve->walked > sieve->enough)
                    return 1;
    }
    return path->kind < NAME || leads_to_value(sieve, text, at, end, path->kind);
}

enum { NOWHERE = 0, HERE = 1, BEFORE = 2 }; /* Where a match would begin: at the first byte of a path, or with what comes before a token. */

static int opens(Sieve *sieve, uint64_t buckets, const unsigned char *text, size_t at, size_t end) {
    int where = NOWHERE;
    for (int bucket = 0; buckets; bucket++, buckets >>= 1) {
#ifdef __GNUC__
        bucket += __builtin_ctzll(buckets);
        buckets >>= __builtin_ctzll(buckets);
#endif
        if (buckets & 1)
            for (const uint16_t *n = sieve->listed + sieve->firsts[bucket]; n < sieve->listed + sieve->firsts[bucket + 1]; n++) {
                int side = sieve->paths[*n].kind == LED ? BEFORE : HERE;
                if (!(where & side) && follows(sieve, sieve->paths + *n, text, at, end))
                    where |= side;
            }
    }
    return where;
}

/* The buckets of the paths that may begin at each of these places. */
static inline uint64_t fill(const Sieve *sieve, const unsigned char *text, uint64_t *buckets, size_t count) {
    uint64_t any = 0;
    for (size_t i = 0; i < count; i++)
        any |= buckets[i] =
            sieve->masks[0][text[i]] & sieve->masks[1][text[i + 1]] & sieve->masks[2][text[i + 2]] & sieve->masks[3][text[i + 3]];
    return any;
}

/* The first place in the text, from `from` on, where the gate could open; `end` if there is none. Where names run into each other, as in
 * `key key key`, each could be followed to the end. Before that takes long, it is left to the gate, which looks at each byte once. */
static size_t first_place(Sieve *sieve, const unsigned char *text, size_t from, size_t end, int *where) {
    enum { AT_ONCE = 8, AT_LEAST = 512, FOR_EACH = 16 };
    uint64_t buckets[AT_ONCE];
    sieve->walked = 0;
    for (size_t at = from; at + WINDOW <= end; at += AT_ONCE) {
        size_t left = end - WINDOW + 1 - at, count = left < AT_ONCE ? left : AT_ONCE;
        /* A number that the compiler knows is a loop without branches. */
        if (!(count == AT_ONCE ? fill(sieve, text + at, buckets, AT_ONCE) : fill(sieve, text + at, buckets, count)))
            continue;
        for (size_t i = 0; i < count; i++) {
            if (!buckets[i])
                continue;
            uint64_t fitting = is_start(text, at + i) ? buckets[i] : buckets[i] & sieve->anywhere;
            sieve->enough = AT_LEAST + FOR_EACH * (at - from);
            if (fitting && (*where = opens(sieve, fitting, text, at + i, end)))
                return at + i;
        }
    }
    return end;
}

/* Of texts, by a table of _sieve.py: the number of each in which the gate could open, the first place there that is not before `from`, and where
 * the match would begin: at the place itself, or before it, and then perhaps at the place as well. */
static PyObject *sieve(PyObject *self, PyObject *args) {
    (void)self;
    const char *parts[6];
    Py_ssize_t sizes[6], from = 0;
    PyObject *texts, *found = NULL;
    if (!PyArg_ParseTuple(args, "(y#y#y#y#y#y#)O|n", &parts[0], &sizes[0], &parts[1], &sizes[1], &parts[2], &sizes[2], &parts[3], &sizes[3],
                          &parts[4], &sizes[4], &parts[5], &sizes[5], &texts, &from))
        return NULL;
    if (from < 0 || !PyList_Check(texts) || sizes[0] != sizeof(uint64_t[WINDOW][256]) || sizes[1] != sizeof(uint16_t[BUCKETS + 1]) ||
        sizes[2] != (Py_ssize_t)sizeof(uint16_t) * ((const uint16_t *)parts[1])[BUCKETS] || sizes[3] % (Py_ssize_t)sizeof(Path) ||
        sizes[4] % (Py_ssize_t)sizeof(Step) || sizes[5] % 32) {
        PyErr_SetString(PyExc_ValueError, "not a table and a list");
        return NULL;
    }
    Sieve made = {
        .masks = (const uint64_t(*)[256])parts[0], /* What a bytes object holds lies as memory from malloc does. */
        .firsts = (const uint16_t *)parts[1],
        .listed = (const uint16_t *)parts[2],
        .paths = (const Path *)parts[3],
        .steps = (const Step *)parts[4],
        .sets = (const uint8_t(*)[32])parts[5],
    };
    for (int bucket = 0; bucket < BUCKETS; bucket++) /* All that is in one is of one kind or the other. */
        if (made.firsts[bucket] < made.firsts[bucket + 1])
            made.anywhere |= (uint64_t)(made.paths[made.listed[made.firsts[bucket]]].kind != LED) << bucket;
    if (!(found = PyList_New(0)))
        return NULL;
    for (Py_ssize_t n = 0, count = PyList_Size(texts); n < count; n++) {
        char *data;
        Py_ssize_t size;
        PyObject *text = PyList_GetItem(texts, n);
        if (!text || PyBytes_AsStringAndSize(text, &data, &size) < 0)
            goto failed;
        int where = NOWHERE;
        size_t place = first_place(&made, (const unsigned char *)data, (size_t)from, (size_t)size, &where);
        if (place == (size_t)size)
            continue;
        size_t start = where & BEFORE ? start_of((const unsigned char *)data, place) : place;
        PyObject *one = Py_BuildValue("nnn", n, (Py_ssize_t)place, (Py_ssize_t)start);
        int is_bad = !one || PyList_Append(found, one) < 0;
        Py_XDECREF(one);
        if (is_bad)
            goto failed;
    }
    return found;
failed:
    Py_DECREF(found);
    return NULL;
}

/* ── rows for a server ────────────────────────────────────────────────────────────────────────────────────────────── */

typedef struct {
    char *data;
    size_t size, room;
} Buffer;

/* Where so many further bytes are to be written. */
static char *more(Buffer *out, size_t size) {
    if (!out->data || out->room - out->size < size) {
        size_t room = (out->size + size) * 2 + 64;
        char *data = realloc(out->data, room);
        if (!data) {
            PyErr_NoMemory();
            return NULL;
        }
        out->data = data;
        out->room = room;
    }
    out->size += size;
    return out->data + out->size - size;
}

static int put_number(Buffer *out, uint64_t value, size_t width) {
    char *at = more(out, width);
    if (!at)
        return -1;
    while (width--) {
        at[width] = (char)(value & 0xff);
        value >>= 8;
    }
    return 0;
}

static int put_data(Buffer *out, const char *data, Py_ssize_t size) {
    if (size > INT32_MAX) {
        PyErr_SetString(PyExc_OverflowError, "a value is longer than a column can be");
        return -1;
    }
    if (put_number(out, (uint64_t)size, 4) < 0)
        return -1;
    char *at = more(out, (size_t)size);
    if (!at)
        return -1;
    memcpy(at, data, (size_t)size);
    return 0;
}

/* A value that is no number fits its column as little as one that is too large. */
static int not_a_number(void) {
    if (PyErr_ExceptionMatches(PyExc_TypeError))
        PyErr_SetString(PyExc_OverflowError, "a value is not the number that its column takes");
    return -1;
}

static int put_value(Buffer *out, PyObject *value, char sign) {
    if (value == Py_None)
        return put_number(out, UINT32_MAX, 4);
    if (sign == 'd') {
        double number = PyFloat_AsDouble(value);
        uint64_t bits;
        if (number == -1.0 && PyErr_Occurred())
            return not_a_number();
        memcpy(&bits, &number, sizeof(bits));
        return put_number(out, 8, 4) < 0 ? -1 : put_number(out, bits, 8);
    }
    if (sign != 's') {
        long long number = PyLong_AsLongLong(value);
        int width = sign == 'q' ? 8 : sign == 'i' ? 4 : 2;
        if (number == -1 && PyErr_Occurred())
            return not_a_number();
        if (width < 8 && (number >> (width * 8 - 1)) != (number < 0 ? -1 : 0)) {
            PyErr_SetString(PyExc_OverflowError, "a number has more bits than its column");
            return -1;
        }
        return put_number(out, (uint64_t)width, 4) < 0 ? -1 : put_number(out, (uint64_t)number, (size_t)width);
    }
    if (PyUnicode_Check(value)) {
        Py_ssize_t size;
        const char *data = PyUnicode_AsUTF8AndSize(value, &size);
        return data ? put_data(out, data, size) : -1;
    }
    Py_buffer view;
    if (PyObject_GetBuffer(value, &view, PyBUF_SIMPLE) < 0)
        return -1;
    int done = put_data(out, view.buf, view.len);
    PyBuffer_Release(&view);
    return done;
}

static int put_row(Buffer *out, PyObject *row, const char *signs, Py_ssize_t count) {
    int is_tuple = PyTuple_Check(row);
    if ((!is_tuple && !PyList_Check(row)) || (is_tuple ? PyTuple_Size(row) : PyList_Size(row)) != count) {
        PyErr_SetString(PyExc_ValueError, "not a row of so many values");
        return -1;
    }
    if (put_number(out, (uint64_t)count, 2) < 0)
        return -1;
    for (Py_ssize_t n = 0; n < count; n++) {
        PyObject *value = is_tuple ? PyTuple_GetItem(row, n) : PyList_GetItem(row, n);
        if (!value || put_value(out, value, signs[n]) < 0)
            return -1;
    }
    return 0;
}

/* The bytes so far as one more part. */
static int end_part(Buffer *out, PyObject *parts) {
    PyObject *part = PyBytes_FromStringAndSize(out->data, (Py_ssize_t)out->size);
    int is_bad = !part || PyList_Append(parts, part) < 0;
    Py_XDECREF(part);
    out->size = 0;
    return is_bad ? -1 : 0;
}

/* Of a list of rows, what the columns are, and how large a part is to be: the parts. */
static PyObject *pack_rows(PyObject *self, PyObject *args) {
    (void)self;
    PyObject *rows;
    const char *signs;
    Py_ssize_t count, part_size;
    if (!PyArg_ParseTuple(args, "Oy#n", &rows, &signs, &count, &part_size))
        return NULL;
    if (!PyList_Check(rows) || count > INT16_MAX) {
        PyErr_SetString(PyExc_TypeError, "not a list of rows, or of too many columns");
        return NULL;
    }
    PyObject *parts = PyList_New(0);
    Buffer out = {NULL, 0, 0};
    for (Py_ssize_t n = 0; parts && n < PyList_Size(rows); n++) {
        PyObject *row = PyList_GetItem(rows, n);
        Py_XINCREF(row); /* A value may be of any class. */
        int is_bad = !row || put_row(&out, row, signs, count) < 0;
        Py_XDECREF(row);
        if (is_bad)
            goto failed;
        if (out.size >= (size_t)part_size && end_part(&out, parts) < 0)
            goto failed;
    }
    if (!parts || end_part(&out, parts) < 0)
        goto failed;
    free(out.data);
    return parts;
failed:
    free(out.data);
    Py_XDECREF(parts);
    return NULL;
}

/* ── memory ───────────────────────────────────────────────────────────────────────────────────────────────────────── */

/* A worker frees all that it made of a source before it takes the next. Given back to the system, memory has to be asked for and cleared again,
 * page by page: a quarter of all page faults of a first sync. So it is kept, up to what a worker may well need once more. */
static PyObject *keep_freed(PyObject *self, PyObject *args) {
    (void)self, (void)args;
#ifdef __GLIBC__
    mallopt(M_MMAP_THRESHOLD, 32 << 20);
    mallopt(M_TRIM_THRESHOLD, 128 << 20);
#endif
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"camel_parts", camel_parts, METH_O, NULL},
    {"list_words", list_words, METH_VARARGS, NULL},
    {"make_pages", make_pages, METH_O, NULL},
    {"bind_pages", bind_pages, METH_O, NULL},
    {"find_in_pages", find_in_pages, METH_VARARGS, NULL},
    {"sieve", sieve, METH_VARARGS, NULL},
    {"pack_rows", pack_rows, METH_VARARGS, NULL},
    {"keep_freed", keep_freed, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyModuleDef_Slot slots[] = {{0, NULL}};

static PyModuleDef definition = {PyModuleDef_HEAD_INIT, "runlore._speed", NULL, 0, methods, slots, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__speed(void) { return PyModuleDef_Init(&definition); }
