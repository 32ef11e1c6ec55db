// Sets the chosen theme before the page is painted; no choice follows the system.
{
  let theme = null;
  try {
    theme = localStorage.getItem("pocketmq.theme");
  } catch {
    // A browser that stores nothing follows the system.
  }
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
}
