// Keys of every page: "/" goes to the filter, "?" lists the shortcuts.

const TYPED_INTO = "input, textarea, select, [contenteditable]";

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target.closest?.(TYPED_INTO)) return;
  if (event.key === "/") {
    const filter = document.querySelector("[role=search] input:not([type=checkbox])");
    if (!filter) return;
    event.preventDefault();
    filter.focus();
    filter.select();
  } else if (event.key === "?") {
    const shortcuts = document.getElementById("shortcuts");
    if (!shortcuts.open) shortcuts.showModal();
  }
});

document.getElementById("shortcuts-button").addEventListener("click", () => {
  document.getElementById("shortcuts").showModal();
});
