// Ends of months, leap years and ISO weeks, in UTC.

import { handler } from 'host-jobs';

const DAY = 86_400_000;
const day = (date) => date.toISOString().slice(0, 10);

function week(date) {
  const thursday = new Date(date.getTime() + (4 - (date.getUTCDay() || 7)) * DAY);
  const first = Date.UTC(thursday.getUTCFullYear(), 0, 1);
  return `${thursday.getUTCFullYear()}-W${String(Math.floor((thursday - first) / DAY / 7) + 1).padStart(2, '0')}`;
}

handler('dates', {}, (ctx, { from }) => {
  const date = new Date(`${from}T00:00:00Z`);
  const ends = Array.from({ length: 3 }, (_, n) => day(new Date(Date.UTC(date.getUTCFullYear(), date.getUTCMonth() + n + 1, 0))));
  return { ends, week: week(date), weekday: date.getUTCDay(), unix: date / 1000 };
});
