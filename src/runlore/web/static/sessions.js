// Search while typing: the list is fetched and put in place of the old one, and the URL follows, so that it can be shared.
import { $, load } from "./app.js";

const form = $("#filters");
const field = $('input[name="q"]');
const results = $("#results");
let asked = 0;
let timer;

function question() {
  const given = new FormData(form);
  for (const [name, value] of [...given]) if (!String(value).trim()) given.delete(name);
  if (given.get("sort") && field.value !== field.defaultValue) given.delete("sort");
  return new URLSearchParams(given).toString();
}

async function search() {
  const mine = ++asked;
  const query = question();
  results.setAttribute("aria-busy", "true");
  try {
    const html = await load(`/sessions/results?${query}`);
    if (mine !== asked) return; // A newer one is on its way.
    results.innerHTML = html;
    history.replaceState(null, "", query ? `/sessions?${query}` : "/sessions");
  } catch {
    // Half a field, or half a phrase: what was there stays until it makes sense.
  } finally {
    if (mine === asked) results.removeAttribute("aria-busy");
  }
}

field.addEventListener("input", () => {
  clearTimeout(timer);
  timer = setTimeout(search, 90);
});
form.addEventListener("change", (event) => {
  if (event.target.type === "checkbox") search();
});
if (matchMedia("(max-width: 60rem)").matches) $(".narrowing").removeAttribute("open");
