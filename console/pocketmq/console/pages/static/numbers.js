// Numbers and times as the server writes them in pages.

export function count(number) {
  return String(number).replace(/\B(?=(\d{3})+$)/g, "\u202f");
}

export function time(timeMs) {
  return new Date(timeMs).toISOString().replace("T", " ").replace("Z", " UTC");
}

export function rate(perSecond) {
  if (perSecond === null) return "–";
  const [whole, decimals] = perSecond.toFixed(1).split(".");
  return `${count(whole)}.${decimals}`;
}
