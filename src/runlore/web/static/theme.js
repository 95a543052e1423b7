// Runs before the page is drawn, so that it is never shown in the wrong colours first.
try {
  const chosen = localStorage.getItem("theme");
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
} catch {
  // A browser that keeps nothing: the system's choice stays.
}
