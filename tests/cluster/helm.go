// SPDX-License-Identifier: Apache-2.0

// helm CHART RELEASE NAMESPACE [VALUES]: what helm's engine makes of a chart's templates, by the
// libraries that it is made of: Go's text/template, sprig, sigs.k8s.io/yaml. A second opinion on
// tools/helm-render, where no helm is to be had.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"text/template"

	"github.com/Masterminds/sprig"
	"sigs.k8s.io/yaml"
)

type files struct{ chart string }

// Get is .Files.Get.
func (f files) Get(name string) string { return read(filepath.Join(f.chart, name)) }

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "helm:", err)
		os.Exit(1)
	}
}

func read(path string) string {
	data, err := os.ReadFile(path)
	must(err)
	return string(data)
}

func load(path string) map[string]interface{} {
	out := map[string]interface{}{}
	must(yaml.Unmarshal([]byte(read(path)), &out))
	return out
}

func merge(base, more map[string]interface{}) {
	for key, value := range more {
		inner, is := value.(map[string]interface{})
		if old, was := base[key].(map[string]interface{}); is && was {
			merge(old, inner)
		} else {
			base[key] = value
		}
	}
}

func functions(t *template.Template) template.FuncMap {
	f := sprig.TxtFuncMap()
	f["toYaml"] = func(v interface{}) string {
		data, err := yaml.Marshal(v)
		must(err)
		return strings.TrimSuffix(string(data), "\n")
	}
	f["include"] = func(name string, data interface{}) (string, error) {
		var out strings.Builder
		err := t.ExecuteTemplate(&out, name, data)
		return out.String(), err
	}
	f["tpl"] = func(text string, data interface{}) (string, error) {
		var out strings.Builder
		inner, err := template.Must(t.Clone()).New("tpl").Parse(text)
		must(err)
		err = inner.Execute(&out, data)
		return out.String(), err
	}
	return f
}

func main() {
	chart, about := os.Args[1], load(filepath.Join(os.Args[1], "Chart.yaml"))
	values := load(filepath.Join(chart, "values.yaml"))
	for _, path := range os.Args[4:] {
		merge(values, load(path))
	}
	top := map[string]interface{}{
		"Values":  values,
		"Files":   files{chart},
		"Release": map[string]interface{}{"Name": os.Args[2], "Namespace": os.Args[3], "Service": "Helm"},
		"Chart":   map[string]interface{}{"Name": about["name"], "Version": about["version"], "AppVersion": about["appVersion"]},
	}
	t := template.New("chart").Option("missingkey=zero")
	t.Funcs(functions(t))
	paths, err := filepath.Glob(filepath.Join(chart, "templates", "*"))
	must(err)
	sort.Strings(paths)
	for _, path := range paths {
		_, err := t.New(filepath.Base(path)).Parse(read(path))
		must(err)
	}
	for _, path := range paths {
		if name := filepath.Base(path); !strings.HasPrefix(name, "_") {
			fmt.Printf("---\n# Source: %s/templates/%s\n", about["name"], name)
			must(t.ExecuteTemplate(os.Stdout, name, top))
		}
	}
}
