// One handler for each package: it calls what the package is for.

import { handler } from 'host-jobs';

import { addMonths, format } from 'date-fns';
import dayjs from 'dayjs';
import Decimal from 'decimal.js';
import { produce } from 'immer';
import { jwtVerify, SignJWT } from 'jose';
import jsonwebtoken from 'jsonwebtoken';
import lodash from 'lodash';
import { DateTime } from 'luxon';
import { nanoid } from 'nanoid';
import pRetry from 'p-retry';
import qs from 'qs';
import semver from 'semver';
import { v4, v5 } from 'uuid';

const smoke = (name, run) => handler(name, {}, run);

smoke('date-fns', () => format(addMonths(new Date(2026, 0, 31), 1), 'yyyy-MM-dd'));
smoke('dayjs', () => dayjs('2026-02-28').add(1, 'day').format('YYYY-MM-DD'));
smoke('decimal.js', () => new Decimal('0.1').plus('0.2').toString());
smoke('immer', () => produce({ a: [1] }, (it) => void it.a.push(2)).a);
smoke('jose', async () => {
  const key = new TextEncoder().encode('a secret of thirty-two characters');
  const token = await new SignJWT({ a: 1 }).setProtectedHeader({ alg: 'HS256' }).sign(key);
  return (await jwtVerify(token, key)).payload.a;
});
smoke('jsonwebtoken', () => jsonwebtoken.verify(jsonwebtoken.sign({ a: 1 }, 's'), 's').a);
smoke('lodash', () => lodash.groupBy([1, 2, 3], (n) => n % 2));
smoke('luxon', () => DateTime.fromISO('2026-07-01T12:00:00Z').setZone('Europe/Berlin').toISO());
smoke('nanoid', () => nanoid().length);
smoke('p-retry', async () => {
  let tries = 0;
  return pRetry(
    () => {
      tries += 1;
      if (tries < 3) throw new Error('again');
      return tries;
    },
    { minTimeout: 1 },
  );
});
smoke('qs', () => qs.stringify(qs.parse('a[b]=1&a[c]=2'), { encode: false }));
smoke('semver', () => semver.satisfies('1.2.3', '^1.0.0'));
smoke('uuid', () => [v4().length, v5('a', v5.URL)]);
