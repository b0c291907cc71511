import assert from 'node:assert/strict';
import type { IdentityProvider, ProviderCallOptions } from '../identity-management/application/ports/identity-provider.port.js';
import { ProviderUnavailable } from '../identity-management/domain/errors.js';
import { assertEqual, assertInstance, assertLength } from './expectations.js';
import { providerCalls, someUser } from './identity-provider.calls.js';
import { PROMISES } from './identity-provider.promises.js';
import type { IdentityProviderSetting } from './identity-provider.subject.js';
import { promisesOf } from './port-promise.js';
import type { TestRunner } from './test-runner.js';

/** The tests of `identityProviderContract` about listing users and roles. */
export function identityProviderListsContract(settingOf: () => IdentityProviderSetting, runner: TestRunner): void {
  const { describe, beforeEach } = runner;
  const it = promisesOf('IdentityProvider', runner);

  describe('listUsers and listRoles', () => {
    let setting: IdentityProviderSetting;
    let provider: IdentityProvider;
    const options: ProviderCallOptions = { signal: new AbortController().signal };
    const { someRole, users, roles } = providerCalls(() => provider, options);

    beforeEach(() => {
      setting = settingOf();
      ({ provider } = setting);
      return Promise.resolve();
    });

    it(PROMISES.lists, 'list every user exactly once, over several pages', async () => {
      const created: string[] = [];
      for (let index = setting.moreThanOnePage ?? 501; index > 0; index--) {
        created.push(await provider.createUser(someUser(), options));
      }
      const listed = (await users()).map(({ userId }) => userId);
      assert.equal(new Set(listed).size, listed.length, 'Some are listed twice.');
      assertLength(created.filter((id) => !listed.includes(id)), 0, 'Some that were created are not listed.');
    });

    it(PROMISES.lists, 'list every role exactly once, over several pages', async () => {
      const created: string[] = [];
      for (let index = setting.moreThanOnePage ?? 501; index > 0; index--) created.push(await someRole());
      const listed = (await roles()).map(({ roleId }) => roleId);
      assert.equal(new Set(listed).size, listed.length, 'Some are listed twice.');
      assertLength(created.filter((id) => !listed.includes(id)), 0, 'Some that were created are not listed.');
    });

    it(PROMISES.listReturn, 'end when the iterator is returned', async () => {
      await provider.createUser(someUser(), options);
      await someRole();
      for (const pages of [provider.listUsers(options), provider.listRoles(options)]) {
        const iterator = pages[Symbol.asyncIterator]();
        assert.equal((await iterator.next()).done, false);
        await iterator.return?.();
        assert.equal((await iterator.next()).done, true, 'The list goes on after return().');
      }
    });

    it(PROMISES.aborts, 'reject between two pages when the signal aborts', async () => {
      const created: string[] = [];
      for (let index = setting.moreThanOnePage ?? 501; index > 0; index--) created.push(await provider.createUser(someUser(), options));
      const controller = new AbortController();
      let pages = 0;
      const listed = new Set<string>();
      const listing = async (): Promise<void> => {
        for await (const page of provider.listUsers({ signal: controller.signal })) {
          pages += Math.sign(page.length);
          for (const { userId } of page) listed.add(userId);
          controller.abort();
        }
      };
      // A list with a single page may end normally, because there is no further call that could be rejected.
      const isWhole = await listing().then(
        () => created.every((id) => listed.has(id)),
        (error: unknown) => {
          assertInstance(error, ProviderUnavailable);
          return true;
        },
      );
      assert.equal(pages, 1, `${pages} pages were listed, although the signal aborted after the first.`);
      assert.ok(isWhole, 'The list ended after its first page as if it were whole.');
    });

    it(PROMISES.atOnce, 'can be read at the same time', async () => {
      await provider.createUser(someUser(), options);
      const [one, other] = await Promise.all([users(), users()]);
      assertEqual(one, other);
    });
  });
}
