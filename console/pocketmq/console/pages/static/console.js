// What every page loads; without script the pages can be read, and their forms be sent.

import "./shortcuts.js";
import "./sliders.js";
import "./theme_button.js";

for (const element of document.querySelectorAll("[data-needs-script]")) element.hidden = false;
