// `URL` and `URLSearchParams`, from a package that `host build` brings along. It makes them global itself.

import 'core-js/web/url.js';
import 'core-js/web/url-search-params.js';
