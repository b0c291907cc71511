import { ApiProperty, ApiSchema } from '@nestjs/swagger';

const ADDITIONAL_DATA = { description: 'Extra data, sent only if required', required: false };

@ApiSchema({ name: 'UploadForm', description: 'A file, and optionally data beside it. Other parts are ignored.' })
export class UploadForm {
  @ApiProperty({ type: 'string', format: 'binary', description: 'The file. Its bytes are stored as they are.' })
  readonly file!: string;

  // The example is empty, because Swagger UI would send any other text as the `additional_data` of an upload.
  @ApiProperty({ ...ADDITIONAL_DATA, type: String, example: '' })
  readonly additional_data?: string;
}

// `additionalProperties` would make generated clients accept any member, even a Blob, which JSON encodes as `{}`.
@ApiSchema({
  name: 'UploadJson',
  description: 'An empty object, or one with only `additional_data`, is an upload without a file. With any other member, the whole object is stored as the file of the upload. A member `file` is refused.',
})
export class UploadJson {
  @ApiProperty({ ...ADDITIONAL_DATA, type: String, nullable: true, example: 'meter replaced on 2003-12-04' })
  readonly additional_data?: string | null;
}
