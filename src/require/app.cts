import { requireModule } from './require-module.cjs';

export = requireModule(require, '../app/index.js');
