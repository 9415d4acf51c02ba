package debezium

import "millrace/transforms"

// All are Debezium's transforms.
func All() []transforms.Plugin {
	return []transforms.Plugin{
		ExtractNewRecordState, ByLogicalTableRouter, ContentBasedRouter, DecodeLogicalDecodingMessageContent, EventRouter, Filter, ExtractChangedRecordState, HeaderToValue, PartitionRouting, SchemaChangeEventFilter, TimezoneConverter, VectorToJSON,
	}
}
