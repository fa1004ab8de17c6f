// Checks a dashboard as Grafana's schema has it: no field that it does not know, none of another type, none missing.
//
// usage: grafana-check FILE
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/cog/plugins"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
)

func main() {
	if len(os.Args) != 2 {
		exitOn(errors.New("usage: grafana-check FILE"))
	}
	plugins.RegisterDefaultPlugins() // panels and queries by their types
	text, err := os.ReadFile(os.Args[1])
	exitOn(err)
	var found dashboard.Dashboard
	exitOn(found.UnmarshalJSONStrict(text))
	exitOn(found.Validate())
	exitOn(checkFields(text))
	fmt.Printf("%d panels\n", len(found.Panels))
}

// The library reads the field configuration of a panel without being strict.
func checkFields(text []byte) error {
	var found struct {
		Panels []struct {
			FieldConfig json.RawMessage `json:"fieldConfig"`
		} `json:"panels"`
	}
	if err := json.Unmarshal(text, &found); err != nil {
		return err
	}
	var faults cog.BuildErrors
	for index, panel := range found.Panels {
		var fields dashboard.FieldConfigSource
		if err := fields.UnmarshalJSONStrict(panel.FieldConfig); err != nil {
			faults = append(faults, cog.MakeBuildErrors(fmt.Sprintf("panels[%d].fieldConfig", index), err)...)
		}
	}
	return faults
}

func exitOn(err error) {
	var faults cog.BuildErrors
	if err == nil || errors.As(err, &faults) && len(faults) == 0 { // a list of none comes back too
		return
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}
