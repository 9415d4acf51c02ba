// Package javatls makes Go's TLS configurations of Java's ssl.* settings: PEM, PKCS12 and JKS stores in files, PEM text
// in the settings themselves, client authentication, protocols and ciphers. Listeners, the worker's own clients and
// connectors' clients read their settings through it, each below its own prefix.
//
// Files are looked at again when connections are made, so a renewed certificate needs no restart. What a store holds is
// judged by its bytes and not by its declared type, as Java does with its two stores. Sizes in a store are checked
// against its length before memory is taken for them.
package javatls
