// Answers requests of handlers from a recording in the format HAR 1.2, in tests.

import { HttpError } from './errors.js';
import { Response } from './http.js';

/** Headers that are no longer true of a recorded body. */
const DROPPED = ['connection', 'content-encoding', 'content-length', 'transfer-encoding'];

/** Returns what answers requests as they were answered in a recording. */
export function answers(har) {
  const { entries } = JSON.parse(har).log;
  const used = new Set();
  return (request) => {
    const ofRequest = entries.filter((entry) => isOf(entry.request, request));
    const entry = ofRequest.find((one) => !used.has(one)) ?? ofRequest.at(-1);
    if (!entry) throw missing(request, 'is not in the recording');
    used.add(entry);
    const { status, headers = [], content = {} } = entry.response;
    // Recorders write 0 if there was no response.
    if (status === 0) throw missing(request, 'got no response when it was recorded');
    const named = headers.map(({ name, value }) => [name.toLowerCase(), value]);
    const kept = named.filter(([name]) => !name.startsWith(':') && !DROPPED.includes(name));
    return new Response(body(content), { status, headers: kept });
  };
}

function isOf({ method, url, postData }, request) {
  if (method !== request.method || url !== request.url) return false;
  return postData?.text === undefined || postData.text === new TextDecoder().decode(request.body);
}

function body({ text = '', encoding }) {
  return encoding === 'base64' ? Uint8Array.from(atob(text), (char) => char.charCodeAt(0)) : text;
}

const missing = ({ method, url }, cause) =>
  new HttpError({ kind: 'unreachable', message: `${method} ${url} ${cause}` });
