// A slider whose steps have names shows the name of the chosen one beside itself.

for (const slider of document.querySelectorAll("input[type=range][data-steps]")) {
  const steps = slider.dataset.steps.split("|");
  const output = slider.form.querySelector(`output[for="${slider.id}"]`);
  const show = () => {
    output.value = steps[slider.value];
    slider.setAttribute("aria-valuetext", steps[slider.value]);
  };
  slider.addEventListener("input", show);
  show();
}
