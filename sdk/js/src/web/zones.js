// The rules of all time zones, for `Intl`. The builder has them.

import rules from 'time-zones';

import { setRules } from './intl/zones.js';

setRules(rules);
