// What every page shares: theme, keyboard, copying, hover values. Works with what the server made; fetches nothing by itself.

export const $ = (selector, root = document) => root.querySelector(selector);
export const $$ = (selector, root = document) => [...root.querySelectorAll(selector)];

export function say(text) {
  const toast = $("#said");
  toast.textContent = text;
  toast.classList.add("on");
  clearTimeout(say.timer);
  say.timer = setTimeout(() => toast.classList.remove("on"), 1800);
}

export async function copy(text, what = "copied") {
  try {
    await navigator.clipboard.writeText(text);
    say(what);
  } catch {
    say("the browser does not allow copying here");
  }
}

export async function load(url) {
  const answer = await fetch(url, { headers: { accept: "text/html" } });
  if (!answer.ok) throw new Error(`${answer.status}`);
  return answer.text();
}

// A browser holds six connections to a server, for all its tabs: one that nobody looks at lets go of its own.
export function listen(url, changed) {
  let source;
  const follow = () => {
    source?.close();
    source = undefined;
    if (document.hidden) return;
    source = new EventSource(url);
    source.addEventListener("changed", (event) => changed(JSON.parse(event.data)));
  };
  document.addEventListener("visibilitychange", () => {
    follow();
    if (!document.hidden) changed({});
  });
  follow();
}

$("[data-theme-toggle]")?.addEventListener("click", () => {
  const root = document.documentElement;
  const isDark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = isDark ? "light" : "dark";
  try {
    localStorage.setItem("theme", root.dataset.theme);
  } catch {
    // It holds for this page.
  }
});

const help = $("#help");
$("[data-help]")?.addEventListener("click", () => help.showModal());
document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-copy]");
  if (button) copy(button.dataset.copy, button.dataset.said || "copied");
  const mark = event.target.closest("[data-go]");
  if (mark) location.href = mark.dataset.go;
});

// ── keyboard ────────────────────────────────────────────────────────────────────────────────────────────────────────
const places = { h: "/", s: "/sessions", e: "/errors", u: "/usage", l: "/live", a: "/agents" };
let isGoing = false;

function search() {
  const field = $('[data-key="/"]');
  field?.focus();
  field?.select();
  return Boolean(field);
}

document.addEventListener("keydown", (event) => {
  if ((event.ctrlKey || event.metaKey) && !event.altKey && !event.shiftKey && event.key === "k" && !$("dialog[open]")) {
    if (search()) event.preventDefault();
    return;
  }
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const isTyping = event.target.closest("input, textarea, select, [contenteditable]");
  if (event.key === "Escape" && isTyping) {
    event.target.blur();
    return;
  }
  if (isTyping || $("dialog[open]")) return;
  if (isGoing && places[event.key]) {
    isGoing = false;
    event.preventDefault();
    location.href = places[event.key];
    return;
  }
  isGoing = event.key === "g";
  if (isGoing) setTimeout(() => (isGoing = false), 1200);
  if (event.key === "/") {
    if (search()) event.preventDefault();
  } else if (event.key === "?") {
    event.preventDefault();
    help.showModal();
  } else if (event.key === "j" || event.key === "k") {
    if (move(event.key === "j" ? 1 : -1)) event.preventDefault();
  } else if (event.key === "Enter" && event.target === document.body) {
    const link = $("[data-item].at a, a[data-item].at");
    if (link) link.click();
  }
});

function move(step) {
  const items = $$("[data-item]").filter((item) => item.offsetParent !== null);
  if (!items.length) return false;
  const now = items.findIndex((item) => item.classList.contains("at"));
  let next = now + step;
  if (now < 0) {
    // Nothing is chosen yet: begin with what is on the screen.
    next = Math.max(0, items.findIndex((item) => item.getBoundingClientRect().bottom > 60));
  }
  next = Math.min(items.length - 1, Math.max(0, next));
  for (const item of items) item.classList.remove("at");
  items[next].classList.add("at");
  items[next].scrollIntoView({ block: "nearest" });
  document.dispatchEvent(new CustomEvent("chosen", { detail: items[next] }));
  return true;
}

// ── hover values of charts ──────────────────────────────────────────────────────────────────────────────────────────
const tip = document.createElement("div");
tip.className = "tip";
tip.hidden = true;
document.body.append(tip);
document.addEventListener("pointermove", (event) => {
  const mark = event.target.closest?.("[data-tip]");
  tip.hidden = !mark;
  if (!mark) return;
  if (tip.textContent !== mark.dataset.tip) tip.textContent = mark.dataset.tip;
  const { offsetWidth: width, offsetHeight: height } = tip;
  tip.style.left = `${Math.max(4, Math.min(event.clientX + 12, innerWidth - width - 4))}px`;
  tip.style.top = `${Math.max(4, event.clientY - height - 10)}px`;
});
