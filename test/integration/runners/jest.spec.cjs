jest.setTimeout(60_000);
require('./suites.cjs').defineSuites({ describe, it, beforeEach, afterEach });
