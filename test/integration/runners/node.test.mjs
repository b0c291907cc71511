import { afterEach, beforeEach, describe, it } from 'node:test';
import { defineSuites } from './suites.cjs';

defineSuites({ describe, it, beforeEach, afterEach });
