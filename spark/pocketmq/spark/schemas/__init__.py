"""Bodies in Avro and Protobuf as columns, without a jar."""
