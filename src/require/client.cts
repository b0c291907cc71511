import { requireModule } from './require-module.cjs';

export = requireModule(require, '../client/index.js');
