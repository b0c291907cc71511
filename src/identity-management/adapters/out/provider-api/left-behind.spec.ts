import { expect, it } from 'vitest';
import { LeftBehind } from './left-behind.js';

it('looks again for what was not there, also after some seconds: its creation may have been under way for long', async () => {
  const leftBehind = new LeftBehind();
  let looks = 0;
  await new Promise<void>((removed) => {
    const remove = (): Promise<boolean> => {
      looks++;
      if (looks < 5) return Promise.resolve(false);
      removed();
      return Promise.resolve(true);
    };
    void leftBehind.remove({ what: 'user', isUncertain: true, trace: {}, remove });
  });
  expect(looks).toBe(5);
  leftBehind.close();
});
