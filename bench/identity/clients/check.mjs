// Verifies one access token repeatedly on one CPU core, with the service's guard or only with jose, and prints the rate
// as JSON.
import 'reflect-metadata';
import { execFileSync } from 'node:child_process';
import { NestFactory } from '@nestjs/core';
import { ExecutionContextHost } from '@nestjs/core/helpers/execution-context-host.js';
import { createLocalJWKSet, jwtVerify } from 'jose';
import { AuthenticationModule } from '../../../dist/authentication/authentication.module.js';
import { PermissionGuard, RequirePermission } from '../../../dist/authentication/permission.guard.js';

const { way, seconds, issuer, keySet } = JSON.parse(process.argv[2]);
const token = process.env.ACCESS_TOKEN;
const AUDIENCE = 'load-data-api';
const AT_ONCE = 8;

// Pins all threads of this process to the first core.
execFileSync('taskset', ['--all-tasks', '--cpu-list', '--pid', '0', String(process.pid)]);

async function guard() {
  const authentication = AuthenticationModule.forRoot({ issuer, audience: AUDIENCE, keySet: { load: () => Promise.resolve(keySet) } });
  const app = await NestFactory.createApplicationContext(authentication, { logger: false });
  const permissionGuard = app.get(PermissionGuard);
  class Controller {
    handle() {}
  }
  RequirePermission('read:users')(Controller.prototype, 'handle', Object.getOwnPropertyDescriptor(Controller.prototype, 'handle'));
  return async () => {
    const request = { headers: { authorization: `Bearer ${token}` }, rawHeaders: ['Host', '127.0.0.1', 'Authorization', `Bearer ${token}`] };
    if (!(await permissionGuard.canActivate(new ExecutionContextHost([request], Controller, Controller.prototype.handle)))) throw new Error('It refuses.');
  };
}

function jose() {
  const keys = createLocalJWKSet(keySet);
  return () => jwtVerify(token, keys, { issuer, audience: AUDIENCE });
}

async function checkFor(check, duration) {
  let checks = 0;
  const began = performance.now();
  const work = async () => {
    for (; performance.now() - began < duration * 1000; checks++) await check();
  };
  await Promise.all(Array.from({ length: AT_ONCE }, work));
  return checks / ((performance.now() - began) / 1000);
}

const check = way === 'service' ? await guard() : jose();
await checkFor(check, seconds / 2);
console.log(JSON.stringify({ figures: { rate: await checkFor(check, seconds) }, others: {} }));
process.exit();
