package elasticsearch

import "millrace/connectors"

// The known failures.
var (
	unreachable = connectors.Reason{Code: "es.unreachable", Retry: connectors.RetryHelps,
		Doc:    "No node of the server answers, or the connection breaks before the answer.",
		Remedy: "start the server, or correct connection.url; the task goes on by itself"}
	unavailable = connectors.Reason{Code: "es.unavailable", Retry: connectors.RetryHelps,
		Doc:    "The server answers that it is too busy or not ready (429, 503, rejected execution), or that the index or the whole cluster is blocked for writes, as while a disk is full.",
		Remedy: "look at the cluster's health and disks; a smaller batch.size or max.in.flight.requests takes load away; a block that somebody has set (index.blocks.*, cluster.blocks.*) has to be lifted. The task goes on by itself"}
	unauthorized = connectors.Reason{Code: "es.unauthorized",
		Doc:    "The server refuses the login, or the user may not do what the sink needs.",
		Remedy: "correct connection.username and connection.password, and grant create_index, index, delete and view_index_metadata on the indices"}
	mappingConflict = connectors.Reason{Code: "es.mapping_conflict", Retry: connectors.RetryNever,
		Doc:    "A document does not fit the index's mapping: a field has another type than the mapping says, or is not allowed.",
		Remedy: "send such records to a dead-letter topic (errors.tolerance=all, errors.deadletterqueue.topic.name), or change the mapping or the records"}
	tooLarge = connectors.Reason{Code: "es.too_large", Retry: connectors.RetryNever,
		Doc:    "One document is larger than a request to the server may be (413).",
		Remedy: "raise the server's http.max_content_length, or send such records to a dead-letter topic (errors.tolerance=all)"}
	badRecord = connectors.Reason{Code: "es.bad_record", Retry: connectors.RetryNever,
		Doc:    "A record makes no document: its key is no id, or its value no object.",
		Remedy: "change the records with a transform, set drop.invalid.message=true, or send them to a dead-letter topic (errors.tolerance=all)"}
	nullValue = connectors.Reason{Code: "es.null_value", Retry: connectors.RetryNever,
		Doc:    "A record has a null value, and behavior.on.null.values says fail.",
		Remedy: "set behavior.on.null.values to delete (the key's document goes) or ignore"}
	refused = connectors.Reason{Code: "es.refused",
		Doc:    "The server refuses a request or a document for a cause that the sink does not know.",
		Remedy: "see the server's words"}
	badMapping = connectors.Reason{Code: "es.index_refused", Retry: connectors.RetryNever,
		Doc:    "The server refuses to create the index or its mapping.",
		Remedy: "create the index yourself, or set schema.ignore=true to leave the mapping to the server"}
	noResource = connectors.Reason{Code: "es.no_resource",
		Doc:    "An index, data stream or alias of topic.to.external.resource.mapping does not exist.",
		Remedy: "create it, or correct topic.to.external.resource.mapping"}
	noTemplate = connectors.Reason{Code: "es.no_stream_template", Retry: connectors.RetryNever,
		Doc:    "The server refuses to create a data stream: mostly no index template with data_stream matches its name.",
		Remedy: "make an index template for it (PUT /_index_template/NAME with index_patterns and \"data_stream\": {}), or correct data.stream.type and data.stream.dataset"}
)

var reasons = []*connectors.Reason{&unreachable, &unavailable, &unauthorized, &mappingConflict, &tooLarge, &badRecord, &nullValue, &refused, &badMapping, &noResource, &noTemplate}
