// Reads server-sent events of a URL, as the server sends them; a new request goes on by a cursor.

const SEPARATOR = "\n\n";

// Calls `take` with the data of each event; returns at the end of the answer. Throws an Error with
// the text of a problem, or an AbortError.
export async function readEvents(url, signal, take) {
  const answer = await fetch(url, { signal, headers: { Accept: "text/event-stream" } });
  if (!answer.ok) {
    const problem = await answer.json();
    throw new Error(`${problem.title}: ${problem.detail}; ${problem.remedy}`);
  }
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (let part = await reader.read(); !part.done; part = await reader.read()) {
    text += part.value;
    const events = text.split(SEPARATOR);
    text = events.pop();
    for (const event of events) {
      if (event.startsWith("data: ")) take(JSON.parse(event.slice("data: ".length)));
    }
  }
}
