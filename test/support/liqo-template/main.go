// Renders the template of a WgGatewayServerTemplate or WgGatewayClientTemplate for one gateway as Liqo's controller does:
// every string is a Go template of its own, one that comes out as an integer becomes a number (not below labels and
// annotations), and a key with a leading "?" vanishes with an empty value.
//
// Reads {"template": …, "gateway": …} from standard input, writes the rendered template as JSON.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"text/template"
)

// gateway is what a template may name. Structs, as in Liqo: a field that is not there is an error, not an empty text.
type gateway struct {
	Name, Namespace, ClusterID, GatewayUID, SecretName string
	Spec                                               struct {
		MTU       int
		SecretRef struct{ Name string }
		Endpoint  struct {
			Port           int32
			Ports          []int32
			NodePort       *int32
			LoadBalancerIP *string
			ServiceType    string
			Addresses      []string
		}
	}
}

var firstVariable = regexp.MustCompile(`{{\s*(\S+)\s*}}`)

func main() {
	var input struct {
		Template map[string]any
		Gateway  gateway
	}
	decoder := json.NewDecoder(os.Stdin)
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&input); err != nil {
		fail(err)
	}
	rendered, err := render(input.Template, input.Gateway, false)
	if err != nil {
		fail(err)
	}
	if err := json.NewEncoder(os.Stdout).Encode(rendered); err != nil {
		fail(err)
	}
}

func render(node any, data gateway, textOnly bool) (any, error) {
	switch value := node.(type) {
	case string:
		return renderText(value, data, textOnly)
	case map[string]any:
		return renderMap(value, data, textOnly)
	case []any:
		for i, element := range value {
			rendered, err := render(element, data, textOnly)
			if err != nil {
				return nil, err
			}
			value[i] = rendered
		}
		return value, nil
	case nil:
		return nil, fmt.Errorf("a template must not hold null: Liqo's controller ends on it")
	}
	if textOnly {
		return fmt.Sprint(node), nil
	}
	return node, nil
}

func renderMap(object map[string]any, data gateway, textOnly bool) (any, error) {
	_, hasLabels := object["labels"]
	_, hasAnnotations := object["annotations"]
	rendered := map[string]any{}
	for key, value := range object {
		name, optional := strings.CutPrefix(key, "?")
		if optional {
			value = onlyIfSet(value.(string))
		}
		result, err := render(value, data, textOnly || hasLabels || hasAnnotations)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", key, err)
		}
		if !optional || (result != "" && result != 0) {
			rendered[name] = result
		}
	}
	return rendered, nil
}

func onlyIfSet(text string) string {
	variable := firstVariable.FindStringSubmatch(text)
	if variable == nil {
		return text
	}
	return "{{ if " + variable[1] + " }}" + text + "{{ end }}"
}

func renderText(text string, data gateway, textOnly bool) (any, error) {
	parsed, err := template.New("").Parse(text)
	if err != nil {
		return nil, err
	}
	var out strings.Builder
	if err := parsed.Execute(&out, data); err != nil {
		return nil, err
	}
	if number, err := strconv.Atoi(out.String()); err == nil && !textOnly {
		return number, nil
	}
	return out.String(), nil
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}
