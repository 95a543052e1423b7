// What takes long is found when someone asks for it.
import { $$, load } from "./app.js";

for (const place of $$("[data-load]")) {
  place.querySelector("button").addEventListener("click", async (event) => {
    event.target.disabled = true;
    event.target.textContent = "looking…";
    try {
      place.innerHTML = await load(place.dataset.load);
    } catch {
      event.target.textContent = "that did not work; try again";
      event.target.disabled = false;
    }
  });
}
