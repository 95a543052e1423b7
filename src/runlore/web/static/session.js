// Reading a session: parts are fetched when they come near the screen and let go when they are far, so that twenty thousand
// events scroll like twenty. Links to events, the find field, the menu of an event, subagents in place, and the live tail.
import { $, $$, copy, listen, load, say } from "./app.js";

const root = $("#session");
const { uid, branch } = root.dataset;
const at = (what, query = "") => `/x/${what}/${encodeURIComponent(uid).replaceAll("%3A", ":")}?branch=${branch}${query}`;
const HEIGHT = 64; // Of a block that was never drawn, in pixels.
const SETTLED_MS = 3000; // By then everything near what a link leads to is drawn.
const FAR = 24; // Parts on either side of the screen that stay drawn.

// ── parts ───────────────────────────────────────────────────────────────────────────────────────────────────────────
const loading = new Map();
let goal; // Brings into view what a link leads to, until the reader moves.
for (const act of ["wheel", "touchstart", "pointerdown", "keydown"]) addEventListener(act, () => (goal = undefined), { passive: true });

function hold(part) {
  if (part.classList.contains("away") && !part.style.height) part.style.height = `${part.dataset.blocks * HEIGHT}px`;
}

async function fill(part) {
  if (!part.classList.contains("away")) return;
  const number = part.dataset.part;
  if (!loading.has(number)) {
    loading.set(
      number,
      load(at("part", `&n=${number}`)).then((html) => {
        const before = part.getBoundingClientRect();
        part.innerHTML = html;
        part.classList.remove("away");
        part.style.height = "";
        dress(part);
        // What is read stays where it is when something above it turns out to be higher, or lower, than was thought.
        if (goal) goal();
        else if (before.bottom <= innerHeight * 0.6) scrollBy({ top: part.offsetHeight - before.height, behavior: "instant" });
      }).finally(() => loading.delete(number)),
    );
  }
  await loading.get(number);
}

function empty(part) {
  if (part.classList.contains("away")) return;
  part.style.height = `${part.offsetHeight}px`;
  part.classList.add("away");
  part.replaceChildren();
}

const near = new IntersectionObserver((entries) => {
  for (const { target, isIntersecting } of entries) if (isIntersecting) fill(target).catch(() => say("that part could not be loaded"));
  tidy();
}, { rootMargin: "1200px 0px" });

function tidy() {
  const drawn = $$(".part:not(.away)");
  if (drawn.length <= 2 * FAR) return;
  const middle = innerHeight / 2;
  const far = drawn.map((part) => [Math.abs(part.getBoundingClientRect().top - middle), part]).sort((a, b) => b[0] - a[0]);
  for (const [, part] of far.slice(0, drawn.length - 2 * FAR)) empty(part);
}

function watchParts() {
  for (const part of $$(".part")) {
    hold(part);
    near.observe(part);
  }
}

function dress(part) {
  if ($('[data-show="thoughts"]').checked) for (const one of $$("details.thought", part)) one.open = true;
}

// ── going to an event ───────────────────────────────────────────────────────────────────────────────────────────────
// A result has no block of its own: it is shown with its call, which only the server knows for sure.
async function go(seq) {
  goal = undefined;
  const answer = await fetch(at("place", `&seq=${seq}&q=${encodeURIComponent(field.value.trim())}`));
  if (!answer.ok) {
    say(answer.status === 404 ? `there is no event ${seq}` : "that place could not be found");
    return;
  }
  const place = await answer.json();
  const there = place.branch === null ? "all" : String(place.branch);
  if (there !== branch) {
    location.replace(`?${new URLSearchParams({ branch: there, q: field.value.trim() })}#${seq}`);
    return;
  }
  const part = $$(".part")[place.part];
  if (!part) return;
  await fill(part);
  const block = document.getElementById(String(place.block));
  if (!block) return;
  for (const one of $$("[data-item].at")) one.classList.remove("at");
  block.classList.add("at");
  const { text, spot } = await showWords(block, seq, place.words);
  for (let fold = (text || $("details.call, details.note, details.thought", block))?.closest("details"); block.contains(fold); fold = fold.parentElement.closest("details")) fold.open = true;
  const target = spot || (text && seq !== place.block ? text : block);
  goal = () => target.scrollIntoView({ block: spot ? "center" : "start" });
  goal();
  // What was drawn above on the way may have moved it.
  requestAnimationFrame(() => requestAnimationFrame(() => goal?.()));
  const mine = goal;
  setTimeout(() => goal === mine && (goal = undefined), SETTLED_MS);
}

// ── the words that were searched for ────────────────────────────────────────────────────────────────────────────────
const MARKS = 200; // In one text, at most.
const SPOTS = 6; // Places of one word that count when the best place is chosen.
const NEAR = 120; // Words within so many characters count as together, as in a snippet.

// Returns the element with the text of an event, and the mark to scroll to. If the shown text is cut, or has none of
// the words, the whole text is loaded.
async function showWords(block, seq, words) {
  for (const one of $$("mark.word")) {
    const parent = one.parentNode;
    one.replaceWith(...one.childNodes);
    parent.normalize();
  }
  let text = $$(`[data-of="${seq}"]`, block).find((one) => one.closest(".block") === block);
  if (!words.length) return { text };
  const isCut = text && $("[data-whole]", text);
  if (text && !isCut) {
    const spot = markWords(text, words);
    if (spot) return { text, spot };
  }
  if (!text) {
    text = document.createElement("div");
    text.className = "body";
    text.dataset.of = seq;
    $(".content", block).append(text);
  }
  const source = { dataset: { uid: block.dataset.uid, seq } };
  for (const form of isCut ? ["", "&plain"] : ["&plain"]) {
    text.innerHTML = await load(of("text", source, form));
    const spot = markWords(text, words);
    if (spot) return { text, spot };
  }
  return { text };
}

// Marks words in what is shown of a text, and gives the first mark of the place that has most of them.
function markWords(root, words) {
  const nodes = [];
  let text = "";
  for (const walker = document.createTreeWalker(root, NodeFilter.SHOW_TEXT); walker.nextNode();) {
    nodes.push([text.length, walker.currentNode]);
    text += walker.currentNode.data;
  }
  const spans = placesOf(text, words);
  let best = 0;
  let most = 0;
  const seen = new Map();
  const counted = spans.map(([, , word]) => seen.set(word, (seen.get(word) || 0) + 1).get(word) <= SPOTS);
  for (let n = 0; n < spans.length; n++) {
    if (!counted[n]) continue;
    let number = 0;
    for (let at = n; at < spans.length && spans[at][1] <= spans[n][0] + NEAR; at++) number += counted[at];
    if (number > most) [best, most] = [n, number];
  }
  let spot = null;
  let last = nodes.length - 1;
  for (let n = spans.length - 1; n >= 0; n--) {
    const [first, end] = spans[n];
    while (last > 0 && nodes[last][0] >= end) last--;
    for (let at = last; at >= 0; at--) {
      const [start, node] = nodes[at];
      const range = document.createRange();
      range.setStart(node, Math.max(0, first - start));
      range.setEnd(node, Math.min(node.data.length, end - start));
      const mark = document.createElement("mark");
      mark.className = "word";
      range.surroundContents(mark);
      if (n === best) spot = mark;
      if (start <= first) break;
    }
  }
  return spot;
}

// Where words are in a text, in order and apart: as whole words or parts of a name in mixed case, as in the index, or else
// anywhere. The signs between the words of a phrase may differ: Markdown takes some away.
function placesOf(text, words) {
  const found = [];
  words.forEach((word, n) => {
    const tokens = word.match(/[\p{L}\p{M}\p{N}]+/gu);
    if (!tokens) return;
    const whole = [];
    const parts = [];
    for (const match of text.matchAll(new RegExp(tokens.join("[^\\p{L}\\p{M}\\p{N}]*"), "giu"))) {
      const [first, end] = [match.index, match.index + match[0].length];
      (isEdge(text, first) && isEdge(text, end) ? whole : parts).push([first, end, n]);
      if (whole.length >= MARKS) break;
    }
    found.push(...(whole.length ? whole : parts.slice(0, MARKS)));
  });
  found.sort((a, b) => a[0] - b[0] || b[1] - a[1]);
  let end = 0;
  return found.filter((one) => one[0] >= end && (end = one[1])).slice(0, MARKS);
}

const INSIDE = /^[\p{L}\p{M}\p{N}]{2}/u;
const HUMP = /^(?:[a-z][A-Z]|[A-Z][A-Z][a-z]|[A-Za-z][0-9]|[0-9][A-Za-z])/;

// Whether a word, or a part of a name like `readHTTPHeader2`, begins or ends at a place in a text.
function isEdge(text, at) {
  const around = text.slice(Math.max(0, at - 1), at + 2);
  return at === 0 || !INSIDE.test(around) || HUMP.test(around);
}

function follow() {
  const seq = location.hash.slice(1);
  if (/^\d+$/.test(seq)) go(Number(seq));
}

addEventListener("hashchange", follow);

// Where on the strip one is.
const bars = $$(".strip a");
let isMarking = false;
addEventListener("scroll", () => {
  if (isMarking) return;
  isMarking = true;
  requestAnimationFrame(() => {
    isMarking = false;
    const top = $(".bar").getBoundingClientRect().bottom + 8;
    const here = document.elementFromPoint(innerWidth / 2, Math.min(top, innerHeight - 1))?.closest("[data-seq]");
    if (!here) return;
    const seq = Number(here.dataset.seq);
    for (const bar of bars) bar.classList.toggle("here", Number(bar.dataset.first) <= seq && seq <= Number(bar.dataset.last));
  });
}, { passive: true });

// ── what a click opens ──────────────────────────────────────────────────────────────────────────────────────────────
const aside = $("#aside");
const menu = $("#menu");
let chosen;

async function open(title, url) {
  $("#aside-title").textContent = title;
  const inside = $(".inside", aside);
  inside.textContent = "…";
  if (!aside.open) aside.showModal();
  try {
    inside.innerHTML = await load(url);
  } catch (error) {
    inside.textContent = error.message === "404" ? "It is not kept." : "That did not work.";
  }
  inside.scrollTop = inside.scrollHeight * (title.startsWith("What") ? 1 : 0);
}

const of = (what, block, query = "") =>
  `/x/${what}/${encodeURIComponent(block.dataset.uid).replaceAll("%3A", ":")}?seq=${block.dataset.seq}${query}`;
const seen = (block, query = "") => open(`What the model saw at ${block.dataset.seq}`, of("seen", block, query));

document.addEventListener("click", async (event) => {
  const block = event.target.closest(".block");
  const button = event.target.closest("button, a");
  if (!event.target.closest("#menu")) menu.hidden = true;
  if (!button) return;
  if (button.matches(".more")) {
    chosen = block;
    menu.hidden = false;
    const box = button.getBoundingClientRect();
    menu.style.left = `${Math.max(8, Math.min(box.right - menu.offsetWidth, innerWidth - menu.offsetWidth - 8))}px`;
    menu.style.top = `${Math.min(box.bottom + 4, innerHeight - menu.offsetHeight - 8)}px`;
    $("button", menu).focus();
  } else if (button.dataset.do) {
    menu.hidden = true;
    const act = button.dataset.do;
    if (act === "link") copy(`${location.origin}/s/${encodeURIComponent(chosen.dataset.uid).replaceAll("%3A", ":")}#${chosen.dataset.seq}`, "link copied");
    if (act === "from" || act === "until") {
      const part = `${act === "from" ? "first" : "last"}=${chosen.dataset.seq}`;
      location.href = `/export/${encodeURIComponent(chosen.dataset.uid).replaceAll("%3A", ":")}?format=${button.dataset.format || "md"}&branch=${branch}&${part}`;
    }
    if (act === "seen") seen(chosen);
    if (act === "raw") open(`Raw record of ${chosen.dataset.seq}`, of("raw", chosen));
    if (act === "markdown") copy(await load(of("markdown", chosen)), "copied as Markdown");
  } else if (button.dataset.seen) {
    chosen = block;
    seen(block);
  } else if (button.dataset.earlier) {
    seen(chosen, `&until=${button.dataset.earlier}`);
  } else if (button.dataset.whole) {
    const fold = button.closest(".rest");
    const source = { dataset: { uid: block.dataset.uid, seq: button.dataset.whole } };
    fold.previousElementSibling.outerHTML = await load(of("text", source));
    fold.remove();
  } else if (button.dataset.subMore) {
    const inside = button.closest(".sub");
    const html = await load(`/x/part/${encodeURIComponent(inside.dataset.sub)}?inside&n=${button.dataset.subMore}`);
    button.closest(".rest").outerHTML = html;
  } else if (aside.contains(button) && button.matches("a[href^='#']")) {
    aside.close();
  }
});

document.addEventListener("toggle", async ({ target }) => {
  if (!target.matches?.("[data-related]") || !target.open || target.dataset.loaded) return;
  target.dataset.loaded = "yes";
  const inside = document.createElement("div");
  target.append(inside);
  inside.innerHTML = await load(at("related"));
}, true);

document.addEventListener("toggle", async (event) => {
  const sub = event.target;
  if (!sub.matches?.("details.sub") || !sub.open || sub.dataset.loaded) return;
  sub.dataset.loaded = "yes";
  const inside = document.createElement("div");
  inside.className = "inner";
  sub.append(inside);
  inside.innerHTML = await load(`/x/part/${encodeURIComponent(sub.dataset.sub)}?inside&n=0`);
}, true);

document.addEventListener("keydown", (event) => {
  if (event.key === "Escape" && !menu.hidden) {
    menu.hidden = true;
    $(".more", chosen)?.focus();
  }
  if (!menu.hidden && (event.key === "ArrowDown" || event.key === "ArrowUp")) {
    event.preventDefault();
    const items = $$("button", menu);
    const next = items.indexOf(document.activeElement) + (event.key === "ArrowDown" ? 1 : -1);
    items[(next + items.length) % items.length].focus();
  }
  if (event.key === "f" && !event.ctrlKey && !event.metaKey && !event.altKey && !event.target.closest("input, textarea, select") && !$("dialog[open]")) {
    event.preventDefault();
    $("[data-find]").focus();
  }
  if (event.key === "Enter" && event.target === document.body) {
    const fold = $(".block.at details");
    if (fold) fold.open = !fold.open;
  }
});
document.addEventListener("chosen", ({ detail }) => {
  if (detail.dataset.seq) history.replaceState(null, "", `#${detail.dataset.seq}`);
});

// ── finding ─────────────────────────────────────────────────────────────────────────────────────────────────────────
const field = $("[data-find]");
const finds = $("[data-finds]");
let asked = 0;
let timer;
async function seek() {
  const mine = ++asked;
  const text = field.value.trim();
  if (!text) {
    finds.hidden = true;
    return;
  }
  try {
    const html = await load(at("find", `&q=${encodeURIComponent(text)}`));
    if (mine !== asked) return;
    finds.innerHTML = html;
    finds.hidden = false;
  } catch {
    // Half a phrase: what was found before stays.
  }
}
field.addEventListener("input", () => {
  clearTimeout(timer);
  timer = setTimeout(seek, 120);
});
$(".seek").addEventListener("submit", async (event) => {
  event.preventDefault();
  // After a search the field already has the words, but the other places are not listed yet.
  if (!$("[data-place]", finds)) await seek();
  const places = $$("[data-place]", finds);
  const now = places.findIndex((place) => place.hash === location.hash);
  if (places.length) location.hash = places[(now + 1) % places.length].hash;
});
field.addEventListener("keydown", (event) => {
  if (event.key === "Escape") finds.hidden = true;
});

// ── how it is shown ─────────────────────────────────────────────────────────────────────────────────────────────────
for (const box of $$("[data-show]")) {
  box.addEventListener("change", () => {
    if (box.dataset.show === "notes") root.classList.toggle("with-notes", box.checked);
    else for (const one of $$("details.thought")) one.open = box.checked;
  });
  if (box.checked) box.dispatchEvent(new Event("change"));
}
$("[data-branches]")?.addEventListener("change", (event) => {
  location.search = event.target.value === "0" ? "" : `?branch=${event.target.value}`;
});

// ── the live tail ───────────────────────────────────────────────────────────────────────────────────────────────────
async function grow() {
  const isAtEnd = innerHeight + scrollY >= document.documentElement.scrollHeight - 80;
  const answer = await fetch(at("parts"));
  if (!answer.ok) return;
  const { parts, events, cost, beside } = await answer.json();
  const drawn = $$(".part");
  for (const now of parts) {
    let part = drawn[now.number];
    if (!part) {
      part = document.createElement("section");
      part.className = "part away";
      part.dataset.part = now.number;
      $(".stream").append(part);
      near.observe(part);
    } else if (Number(part.dataset.last) === now.last && Number(part.dataset.blocks) === now.blocks) {
      continue;
    } else {
      part.classList.add("away");
      part.style.height = `${part.offsetHeight}px`;
    }
    Object.assign(part.dataset, { first: now.first, last: now.last, blocks: now.blocks });
    hold(part);
    if (part.getBoundingClientRect().top < innerHeight + 1200) await fill(part);
  }
  $('[data-live="events"]').textContent = events.toLocaleString("en");
  $('[data-live="cost"]').textContent = cost;
  $('[data-live="beside"]').textContent = beside;
  if (isAtEnd) scrollTo(0, document.documentElement.scrollHeight);
}

watchParts();
follow();
if ("running" in root.dataset) listen(`/events?session=${encodeURIComponent(uid)}&events=${root.dataset.events}`, grow);
