// The exports of a component in StarlingMonkey, which runs promises itself.

import { attempt, describe, failed } from './component.js';

export const handler = {
  describe,
  async handle(job, params) {
    try {
      return await attempt(job, params);
    } catch (thrown) {
      throw failed(thrown);
    }
  },
};
