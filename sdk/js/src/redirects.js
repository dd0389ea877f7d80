// Follows redirects: each hop is a request of its own, which the manifest must grant.

import { HttpError } from './errors.js';
import { shown } from './values.js';

const STATUSES = [301, 302, 303, 307, 308];

/** The most redirects of a request. */
const HOPS_MAX = 20;

/** What a request to another origin keeps: no header that could be a credential. */
const HARMLESS = ['accept', 'accept-encoding', 'accept-language', 'content-language', 'content-type', 'user-agent'];

const MODES = ['follow', 'manual', 'error'];

/** Returns what a request does with redirects. */
export function redirectOf(mode) {
  if (mode === undefined || mode === null) return 'manual';
  if (!MODES.includes(mode)) throw new TypeError(`fetch: redirect is one of ${MODES.join(', ')}, got ${shown(mode)}`);
  return mode;
}

/** Sends a request, and follows its redirects if it should. Returns the last answer, and the URL that gave it. */
export function sendAll(send, first, mode) {
  let request = first;
  for (let hops = 0; ; hops += 1) {
    const answer = send(request);
    const [, location] = answer.headers.find(([name]) => name.toLowerCase() === 'location') ?? [];
    const isRedirect = Boolean(location) && STATUSES.includes(answer.status);
    if (!isRedirect || mode === 'manual') return { answer, url: request.url, redirected: hops > 0 };
    const url = resolved(request.url, location);
    if (mode === 'error') throw new TypeError(`fetch: the server redirects to ${url}`);
    if (hops === HOPS_MAX) {
      throw new HttpError({ kind: 'limit-reached', message: `more than ${HOPS_MAX} redirects, the last to ${url}` });
    }
    request = redirected(request, answer.status, url);
  }
}

/** Returns the request that follows a redirect, by the rules of `fetch`. */
function redirected(request, status, url) {
  const isPost = /^post$/i.test(request.method);
  const isGet = /^(get|head)$/i.test(request.method);
  const dropsBody = status === 303 ? !isGet : status < 303 && isPost;
  const isSame = originOf(url) === originOf(request.url);
  const headers = request.headers.filter(([name]) => {
    const key = name.toLowerCase();
    return (isSame || HARMLESS.includes(key)) && !(dropsBody && key.startsWith('content-'));
  });
  return dropsBody ? { ...request, url, headers, method: 'GET', body: new Uint8Array() } : { ...request, url, headers };
}

/** Returns scheme and server of a URL. The host refuses what could be read in another way. */
function originOf(url) {
  const [, scheme, server] = /^(https?):\/\/([^/?#\\]*)/i.exec(url) ?? [];
  const usual = scheme?.toLowerCase() === 'https' ? /:443$/ : /:80$/;
  return scheme && server ? `${scheme}://${server.replace(usual, '')}`.toLowerCase() : undefined;
}

function resolved(base, location) {
  const to = location.trim().replaceAll(' ', '%20');
  if (/^[a-z][a-z0-9+.-]*:/i.test(to)) return to;
  const [, origin, path] = /^([a-z]+:\/\/[^/?#\\]*)([^?#]*)/i.exec(base) ?? ['', '', ''];
  if (to.startsWith('//')) return base.slice(0, base.indexOf(':') + 1) + to;
  if (to.startsWith('/')) return origin + to;
  if (to.startsWith('?') || to.startsWith('#')) return `${origin}${path}${to}`;
  return `${origin}${path.slice(0, path.lastIndexOf('/') + 1) || '/'}${to}`;
}
