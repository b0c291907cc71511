import { requireModule } from './require-module.cjs';

export = requireModule(require, '../testing/contracts.js');
