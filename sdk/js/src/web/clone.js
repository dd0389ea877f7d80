// `structuredClone`, from a package that `host build` brings along. It makes it global itself.

import 'core-js/web/structured-clone.js';
