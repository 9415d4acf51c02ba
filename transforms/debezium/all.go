package debezium

import "millrace/transforms"

// All are Debezium's transforms.
func All() []transforms.Plugin {
	return []transforms.Plugin{
		ExtractNewRecordState, ByLogicalTableRouter, EventRouter, ExtractChangedRecordState, HeaderToValue, PartitionRouting, SchemaChangeEventFilter, VectorToJSON,
	}
}
