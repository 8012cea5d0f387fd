package main

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Security is that of all connections of this process: peers/security.py says where it is found. Its zero value is
// plaintext without a login.
type Security struct {
	Protocol    string `json:"security.protocol"`
	Mechanism   string `json:"sasl.mechanism"`
	User        string `json:"sasl.username"`
	Password    string `json:"sasl.password"`
	CA          string `json:"ssl.ca.location"`
	Certificate string `json:"ssl.certificate.location"`
	Key         string `json:"ssl.key.location"`
}

func readSecurity() (found Security, err error) {
	folder := os.Getenv("KAFKA_CLIENT_SECURITY")
	if folder == "" {
		return found, nil
	}
	written, err := os.ReadFile(filepath.Join(folder, "client.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return found, nil
	}
	if err != nil {
		return found, err
	}
	return found, json.Unmarshal(written, &found)
}

func (s Security) hasTLS() bool { return strings.HasSuffix(s.Protocol, "SSL") }

func (s Security) tls() (*tls.Config, error) {
	authorities, err := os.ReadFile(s.CA)
	if err != nil {
		return nil, err
	}
	config := &tls.Config{RootCAs: x509.NewCertPool()}
	if !config.RootCAs.AppendCertsFromPEM(authorities) {
		return nil, fmt.Errorf("no certificate in %s", s.CA)
	}
	if s.Certificate != "" {
		own, err := tls.LoadX509KeyPair(s.Certificate, s.Key)
		if err != nil {
			return nil, err
		}
		config.Certificates = []tls.Certificate{own}
	}
	return config, nil
}
