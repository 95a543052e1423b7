// What runs now follows what is written.
import { $, listen, load } from "./app.js";

listen(`/events?events=${$("#now").dataset.events}`, async () => {
  try {
    const page = new DOMParser().parseFromString(await load(location.pathname + location.search), "text/html");
    for (const part of ["#now", ".tiles"]) $(part)?.replaceWith($(part, page));
  } catch {
    // The server is gone, or busy: the next change is told again.
  }
});
