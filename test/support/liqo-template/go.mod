module wg-keepalive/test/support/liqo-template

go 1.22
