#!/usr/bin/env node
import { dispatch } from './commands/dispatch.js';

await dispatch();
