// Two contract suites, on fakes of the package. Each runner runs them from a file of its own, as a team would. With the
// environment variable BROKEN, the fakes break a promise of each port.
const { env } = require('node:process');
const { indexLine } = require('load-data-service');
const { InMemoryFileStorage, InMemoryIdentityProvider } = require('load-data-service/testing');
const { fileStorageContract, identityProviderContract } = require('load-data-service/testing/contracts');

/** Says of every upload that it was stored before. */
class BrokenFileStorage extends InMemoryFileStorage {
  async store(draft) {
    return { ...(await super.store(draft)), replayed: true };
  }
}

/** Creates users without their roles. */
class BrokenIdentityProvider extends InMemoryIdentityProvider {
  async createUser(user, options) {
    return super.createUser({ ...user, roleIds: [] }, options);
  }
}

const isBroken = env.BROKEN !== undefined;
const FileStorage = isBroken ? BrokenFileStorage : InMemoryFileStorage;
const IdentityProvider = isBroken ? BrokenIdentityProvider : InMemoryIdentityProvider;

/** @param {import('load-data-service/testing/contracts').TestRunner} [runner] the runner that the suites get. */
exports.defineSuites = (runner) => {
  fileStorageContract(
    'InMemoryFileStorage',
    async () => {
      const storage = new FileStorage();
      return {
        storage,
        isInMemory: true,
        reopen: async () => storage,
        lines: async () => storage.uploads.map((upload) => JSON.parse(indexLine(upload))),
        bytes: async (path) => storage.bytes(path),
        contentPaths: async () => storage.uploads.flatMap(({ content }) => content?.path ?? []),
        tearDown: async () => undefined,
      };
    },
    runner,
  );
  identityProviderContract(
    'InMemoryIdentityProvider',
    async () => {
      const provider = new IdentityProvider(10);
      return {
        provider,
        unknownUserId: 'memory|4b1b7a2e-6c2f-4d58-9d6a-0a8a3a4f9a10',
        unknownRoleId: 'role_4b1b7a2e-6c2f-4d58-9d6a-0a8a3a4f9a10',
        moreThanOnePage: 25,
        reopen: async () => provider,
        permissionsOf: async (userId) => provider.permissionsOf(userId),
        tearDown: async () => undefined,
      };
    },
    runner,
  );
};
