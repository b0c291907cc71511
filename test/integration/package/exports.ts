// Imports what adapters of other stores and providers need. This file compiles only if the package exports all of it.
import {
  EmbeddedIdentityProviderModule,
  HttpModule,
  idempotencyScope,
  type LocalDiskOptions,
  parseIndexLine,
  receiptOf,
  requestIdentity,
  type ServiceErrorOptions,
  type StorageLogger,
  type UploadReceipt,
} from 'load-data-service';
import { BucketView } from 'load-data-service/testing';
import { PAGE_SIZE } from 'load-data-service/testing/contracts';

export const VALUES = [BucketView, EmbeddedIdentityProviderModule, HttpModule, idempotencyScope, PAGE_SIZE, parseIndexLine, receiptOf, requestIdentity];
export type Types = [LocalDiskOptions, ServiceErrorOptions, StorageLogger, UploadReceipt];
