// What runs now follows what is written; a page that has nothing yet is filled with the first session,
// and the demo is replaced by it.
import { $, listen, load } from "./app.js";

const isEmpty = () => !$("#now");

listen(`/events?events=${$("#now")?.dataset.events ?? 0}`, async () => {
  try {
    const page = new DOMParser().parseFromString(await load(location.pathname + location.search), "text/html");
    const isOther = isEmpty() || ($(".demo") && !$(".demo", page));
    for (const part of isOther ? ["main"] : ["#now", ".tiles", ".bars", ".legend", ".faults"]) {
      if ($(part, page)) $(part)?.replaceWith($(part, page));
    }
  } catch {
    // The server is gone, or busy: the next change is told again.
  }
});
