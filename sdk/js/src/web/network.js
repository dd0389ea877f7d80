// `fetch` and its classes as globals.

import { host } from '../component.js';
import { checkedRequest } from '../limits.js';
import { fetchBy } from './fetch.js';

export { Blob, File, FormData, Headers, Request, Response } from './fetch.js';

export const fetch = fetchBy((request) => host.http.send(checkedRequest(request)));
