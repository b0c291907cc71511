import { requireModule } from './require-module.cjs';

export = requireModule(require, '../index.js');
