/**
 * The groups of sources that are mutated. For each: its sources, without those that only a command imports (specs start
 * commands from dist, without the mutant), its share of all mutants, and the specs that must notice its mutants. The
 * specs run stage by stage, the quick ones first, so that most mutants need only these.
 *
 * @type {Record<string, { sources: string[], without?: string[], share: number, stages: string[][] }>}
 */
export const TARGETS = {
  'domain and use cases of ingestion': {
    sources: ['src/ingestion/domain/*.ts', 'src/ingestion/application/*.ts'],
    share: 0.15,
    stages: [
      ['src/ingestion/domain/', 'src/ingestion/application/', 'src/testing/in-memory.file-storage.spec.ts', 'test/e2e/ingestion.e2e.spec.ts'],
      ['test/e2e/stored-uploads.e2e.spec.ts', 'test/e2e/upload-integrity.e2e.spec.ts', 'src/ingestion/adapters/out/local-disk/local-disk.file-storage.adapter.spec.ts'],
      ['src/ingestion/adapters/out/', 'test/e2e/large-bodies.e2e.spec.ts', 'test/e2e/log.e2e.spec.ts'],
    ],
  },
  'domain and use cases of identity management': {
    sources: ['src/identity-management/domain/*.ts', 'src/identity-management/application/*.ts'],
    share: 0.1,
    stages: [
      ['src/identity-management/application/', 'src/testing/in-memory.identity-provider.spec.ts', 'test/e2e/identity-management.e2e.spec.ts'],
      ['test/e2e/provider-failures.e2e.spec.ts', 'test/e2e/authorization.e2e.spec.ts', 'src/identity-management/adapters/out/embedded/embedded.identity-provider.adapter.spec.ts'],
      ['src/identity-management/adapters/out/', 'test/e2e/auth0.e2e.spec.ts', 'test/e2e/keycloak.e2e.spec.ts'],
    ],
  },
  'guards, error table, filter and reading of requests': {
    sources: ['src/http/*.ts', 'src/authentication/*.ts', 'src/ingestion/adapters/in/http/*.ts', 'src/identity-management/adapters/in/http/*.ts'],
    share: 0.25,
    stages: [
      ['src/http/', 'src/authentication/', 'src/ingestion/adapters/in/', 'test/e2e/ingestion.e2e.spec.ts', 'test/e2e/identity-management.e2e.spec.ts'],
      ['test/e2e/http-edge.e2e.spec.ts', 'test/e2e/authorization.e2e.spec.ts', 'test/e2e/stored-uploads.e2e.spec.ts', 'test/e2e/upload-integrity.e2e.spec.ts', 'test/e2e/cross-origin.e2e.spec.ts'],
      ['test/e2e/', 'src/identity-management/adapters/out/embedded/', 'src/common/'],
    ],
  },
  'local disk': {
    sources: ['src/ingestion/adapters/out/local-disk/*.ts', 'src/ingestion/adapters/out/local-disk/stored-uploads/*.ts'],
    share: 0.2,
    stages: [
      ['src/ingestion/adapters/out/local-disk/idempotency', 'src/ingestion/adapters/out/local-disk/d', 'src/ingestion/adapters/out/local-disk/health', 'src/ingestion/adapters/out/local-disk/s'],
      ['src/ingestion/adapters/out/local-disk/local-disk.file-storage.adapter.spec.ts', 'src/ingestion/adapters/out/local-disk/file-maker.spec.ts'],
      ['src/ingestion/adapters/out/local-disk/recovery.slow.spec.ts', 'src/ingestion/adapters/out/local-disk/faults.slow.spec.ts', 'src/ingestion/adapters/out/local-disk/power-cut.slow.spec.ts', 'test/e2e/data-directory-refused.e2e.spec.ts', 'test/e2e/stored-uploads.e2e.spec.ts'],
    ],
  },
  buckets: {
    sources: ['src/ingestion/adapters/out/object-storage/*.ts', 'src/ingestion/adapters/out/object-storage/stored-uploads/*.ts', 'src/ingestion/adapters/out/object-storage/event-outbox/*.ts'],
    share: 0.15,
    stages: [
      ['src/ingestion/adapters/out/object-storage/', 'src/testing/in-memory.bucket.spec.ts'],
      ['test/e2e/older-stores.e2e.spec.ts', 'test/e2e/telling.e2e.spec.ts', 'test/e2e/stored-uploads.e2e.spec.ts'],
    ],
  },
  'embedded provider and Auth0': {
    sources: ['embedded', 'embedded/http', 'auth0', 'provider-api', 'provider-requirements'].map((directory) => `src/identity-management/adapters/out/${directory}/*.ts`),
    without: ['src/identity-management/adapters/out/auth0/tenant-setup.ts'],
    share: 0.1,
    stages: [
      ['src/identity-management/adapters/out/'],
      ['test/e2e/keycloak.e2e.spec.ts', 'test/e2e/auth0.e2e.spec.ts', 'test/e2e/auth0-people.e2e.spec.ts', 'test/e2e/provider-failures.e2e.spec.ts', 'test/e2e/identity-management.e2e.spec.ts'],
    ],
  },
  // The adapter for Keycloak needs Java: nothing but a real Keycloak shows most of what the adapter does.
  Keycloak: {
    sources: ['src/identity-management/adapters/out/keycloak/*.ts'],
    without: ['src/identity-management/adapters/out/keycloak/realm-setup.ts'],
    share: 0.05,
    stages: [
      ['src/identity-management/adapters/out/keycloak/', 'test/e2e/keycloak.e2e.spec.ts'],
      ['test/integration/keycloak.spec.ts'],
      ['test/integration/keycloak-faults.spec.ts', 'test/integration/keycloak-setup.spec.ts'],
    ],
  },
};
