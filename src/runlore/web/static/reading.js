// Says how far the reading is that began with the server, until it ends.
import { $, load } from "./app.js";

const EVERY_MS = 1000;

async function look() {
  if (!document.hidden) {
    try {
      const part = new DOMParser().parseFromString(await load("/x/reading"), "text/html");
      $("#reading")?.replaceWith($("#reading", part));
    } catch {
      // The server is gone, or busy.
    }
  }
  if ($("#reading[data-going]")) setTimeout(look, EVERY_MS);
}

setTimeout(look, EVERY_MS);
