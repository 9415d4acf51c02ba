// Package s3 writes records as objects of S3 and of what speaks its protocol, with the settings of Confluent's S3 sink. Package
// warehouse says which record goes into which object and when an object is whole; here it becomes visible.
//
// An object is visible as a whole or not at all. Its name and content follow from the records (see warehouse.Task), so an
// object that is there already is the same one from before a restart: it is asked for its last offset, and adopted where that
// agrees. Where it does not, another connector writes there, and the task fails and names the object.
package s3
