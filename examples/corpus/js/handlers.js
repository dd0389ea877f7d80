// Programs as people write them. Each is run by a test, in a cell and with the mock host, and returns what `cases.json` says.

import './again.js';
import './abort.js';
import './big_json.js';
import './clone.js';
import './csv.js';
import './dates.js';
import './digest.js';
import './errors.js';
import './form.js';
import './image.js';
import './invoice.js';
import './jwt.js';
import './mail.js';
import './nested.js';
import './of_node.js';
import './pagination.js';
import './pool.js';
import './receipt.js';
import './seen.js';
import './shapes.ts';
import './streams.js';
import './urls.js';
import './webhook.js';
