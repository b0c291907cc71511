import { defineSuites } from './suites.cjs';

defineSuites();
