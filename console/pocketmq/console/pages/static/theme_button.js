// The button that chooses the theme: the system's, light or dark, kept in this browser.

const THEMES = ["system", "light", "dark"];
const root = document.documentElement;
const button = document.getElementById("theme-button");

function show() {
  button.textContent = `Theme: ${root.dataset.theme ?? "system"}`;
}

button.addEventListener("click", () => {
  const next = THEMES[(THEMES.indexOf(root.dataset.theme ?? "system") + 1) % THEMES.length];
  if (next === "system") delete root.dataset.theme;
  else root.dataset.theme = next;
  try {
    localStorage.setItem("pocketmq.theme", next);
  } catch {
    // A browser that stores nothing keeps the choice for this page.
  }
  show();
});
show();
