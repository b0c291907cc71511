import { ApiProperty, ApiSchema } from '@nestjs/swagger';
import { UPLOAD_KINDS, type UploadKind } from '../../../domain/upload.js';

export const UPLOAD_ID = { type: String, format: 'uuid', example: '0198c5a0-5b1e-7c7e-8d55-0c1f5a3e7a10' } as const;

@ApiSchema({ name: 'Upload', description: 'An upload, as its line of the index describes it.' })
export class StoredUpload {
  @ApiProperty({ ...UPLOAD_ID, description: 'The `X-Upload-Id` of the upload' })
  readonly upload_id!: string;

  @ApiProperty({ type: String, enum: UPLOAD_KINDS })
  readonly kind!: UploadKind;

  @ApiProperty({ type: String, example: 'acme-energy' })
  readonly customer_id!: string;

  @ApiProperty({ type: String, example: 'nem12_multiple_meters.csv' })
  readonly filename!: string;

  @ApiProperty({ type: String, example: 'Landis+Gyr' })
  readonly manufacturer!: string;

  @ApiProperty({ type: String, nullable: true, example: 'meter replaced on 2003-12-04' })
  readonly additional_data!: string | null;

  @ApiProperty({ type: String, format: 'date-time', description: 'When the upload was complete', example: '2026-11-23T10:15:00.000Z' })
  readonly received_at!: string;

  @ApiProperty({ type: String, nullable: true, description: 'As sent; null without a file', example: 'text/csv' })
  readonly content_type!: string | null;

  @ApiProperty({ type: 'integer', nullable: true, description: 'Length of the file in bytes; null without a file', example: 4497 })
  readonly content_size!: number | null;

  @ApiProperty({
    type: String,
    nullable: true,
    description: 'sha-256 of the file in lower-case hex; null without a file',
    example: 'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855',
  })
  readonly content_sha256!: string | null;
}

@ApiSchema({ name: 'UploadPage', description: 'A page of uploads, newest first. It may be short, and even empty, although more follow.' })
export class UploadPageBody {
  @ApiProperty({ type: [StoredUpload] })
  readonly uploads!: StoredUpload[];

  @ApiProperty({ type: String, nullable: true, description: 'The `page_token` of the next page; null after the last one', example: null })
  readonly next_page_token!: string | null;
}

@ApiSchema({ name: 'UploadsRemoved' })
export class UploadsRemoved {
  @ApiProperty({ type: String, enum: ['success'] })
  readonly status!: 'success';

  @ApiProperty({ type: 'integer', description: 'The number of uploads that were removed', example: 12 })
  readonly deleted!: number;
}
