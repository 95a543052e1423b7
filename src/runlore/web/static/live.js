// Runs follow what their agents log. What someone is choosing is left alone.
import { $, listen, load } from "./app.js";

let isChosen = false;
document.addEventListener("change", () => (isChosen = true));

listen("/events?live", async () => {
  if (isChosen) return;
  try {
    const page = new DOMParser().parseFromString(await load(location.pathname + location.search), "text/html");
    if (!isChosen) $("main").replaceChildren(...$("main", page).childNodes);
  } catch {
    // The server is gone, or busy: the next change is told again.
  }
});
