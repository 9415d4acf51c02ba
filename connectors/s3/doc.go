// Package s3 writes records as objects of S3 and of what speaks its protocol, with the settings of Confluent's S3 sink. Package
// warehouse says which record goes into which object and when an object is whole; here it becomes visible.
//
// An object is visible as a whole or not at all. Its name and content follow from the records (see warehouse.Task), so an
// object that is there already is the same one from before a restart: it is asked for its last offset, and adopted where that
// agrees. Where it does not, another connector writes there, and the task fails and names the object.
//
// There are two connectors. [Sink] has the settings of Confluent's. [Aiven] has those of Aiven's, which are turned into Sink's: there is
// one way to a client, a bucket and an object. Its files are a warehouse.Output, finished whenever offsets are committed, so that an object
// that is there already is replaced.
package s3
