import { requireModule } from './require-module.cjs';

export = requireModule(require, '../testing/index.js');
